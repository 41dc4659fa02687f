#!/usr/bin/env python3
"""Prints v1.txt, from docs/decisions/0006-parity-matrix.md alone."""


def product(a, b):
    """In GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1, bit by bit."""
    sum = 0
    while b:
        if b & 1:
            sum ^= a
        a <<= 1
        if a & 0x100:
            a ^= 0x11D
        b >>= 1
    return sum


def inverse(a):
    return next(b for b in range(1, 256) if product(a, b) == 1)


def weight(parity, data):
    y = 255 - data
    return product(y, inverse(parity ^ y))


def byte(shard, at):
    return (at * at + 31 * shard + 7 * at * shard + 5) % 251


BYTES = 45
for k, m in [(1, 1), (1, 3), (2, 1), (2, 2), (3, 3), (4, 2), (6, 2), (10, 4), (17, 5), (200, 3)]:
    print(f"geometry {k}+{m}")
    for i in range(m):
        weights = [weight(i, j) for j in range(k)]
        print("weights", bytes(weights).hex())
        parity = bytearray(BYTES)
        for j in range(k):
            for at in range(BYTES):
                parity[at] ^= product(weights[j], byte(j, at))
        print("parity", parity.hex())
