#!/usr/bin/env python3
"""Makes a tree of what is hard to copy, and compares two trees, by nothing of Holdfast's own.

tree.py make DIR FILES   makes DIR, with so many small files in it
tree.py compare A B      names each difference, up to 50; exit code 1 where there are some
tree.py manifest FILE N  writes a manifest (docs/formats/manifest.md) of N further names of `one`: the
                         first half are all `two`, the others are not there
"""

import hashlib
import os
import socket
import stat
import struct
import sys

# Attributes that belong to a file, not to the file system that it is on.
CARRIED = (b"user.", b"trusted.", b"security.capability", b"system.posix_acl_")


def make(root, files):
    os.mkdir(root)
    os.chdir(root)
    for number in range(files):
        where = b"small/%d" % (number // 1000)
        if number % 1000 == 0:
            os.makedirs(where)
        with open(where + b"/%d" % number, "wb") as file:
            file.write(os.urandom(number * 7 % 5000))
    # A farm of hard links, over many directories.
    with open(b"linked", "wb") as file:
        file.write(b"one inode")
    for number in range(300):
        where = b"farm/%d" % (number % 30)
        os.makedirs(where, exist_ok=True)
        os.link(b"linked", where + b"/%d" % number)
    # A file of one terabyte, almost all of it holes.
    with open(b"sparse", "wb") as file:
        for at in (0, 5 << 30, (1 << 40) - 4096):
            file.seek(at)
            file.write(os.urandom(4096))
    with open(b"hole", "wb") as file:
        file.truncate(123456789)
    for name in (b"\xff\xfe", b"new\nline", b" ", b"-rf", b"\\x41", b"$(x)", b"n" * 255, b"a:b", b"*"):
        with open(name, "wb") as file:
            file.write(name)
    # Deeper than any path that the kernel takes.
    top = os.open(b".", os.O_DIRECTORY)
    here = top
    for _ in range(60):
        os.mkdir(b"d" * 100, dir_fd=here)
        below = os.open(b"d" * 100, os.O_DIRECTORY, dir_fd=here)
        if here != top:
            os.close(here)
        here = below
    os.close(os.open(b"deep", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    os.mkfifo(b"pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(b"socket")
    os.mknod(b"null", stat.S_IFCHR | 0o640, os.makedev(1, 3))
    for number, target in enumerate((b"linked", b"/etc/passwd", b"../..", b"nowhere", b"\xff")):
        os.symlink(target, b"link%d" % number)
    os.symlink(b"farm", b"to farm")
    with open(b"owned", "wb") as file:
        file.write(b"x")
    os.setxattr(b"owned", b"user.empty", b"")
    os.setxattr(b"owned", b"user.bytes", bytes(range(256)))
    os.setxattr(b"farm", b"trusted.dir", b"y")
    # Access control lists (linux/posix_acl_xattr.h): version, then tag, permissions, id of each entry.
    nobody = 0xFFFFFFFF
    entries = ((1, 7, nobody), (2, 4, 12345), (4, 5, nobody), (8, 6, 54321), (16, 7, nobody), (32, 1, nobody))
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(b"linked", b"system.posix_acl_access", acl)
    os.setxattr(b"farm/1", b"system.posix_acl_default", acl)
    os.chown(b"owned", 12345, 54321)
    os.chmod(b"owned", 0o6751)
    os.chmod(b"farm", 0o1777)
    os.utime(b"owned", ns=(0, -1234567891))
    os.utime(b"farm/0", ns=(0, 987654321123456789))
    os.mkdir(b"empty")


def walk(fd, path):
    """Each object below a directory that is open: path, status, directory, name."""
    for name in os.listdir(fd):
        name = os.fsencode(name)
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        yield path + b"/" + name, found, fd, name
        if stat.S_ISDIR(found.st_mode):
            below = os.open(name, os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            yield from walk(below, path + b"/" + name)
            os.close(below)


def content(fd, name, length):
    digest = hashlib.sha256()
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd)
    at = 0
    while at < length:
        try:
            start = os.lseek(file, at, os.SEEK_DATA)
        except OSError:
            break
        end = os.lseek(file, start, os.SEEK_HOLE)
        # Zeros that are written and holes are the same.
        at = start // 4096 * 4096
        while at < end:
            piece = os.pread(file, 4096 * 64, at)
            for page in range(0, len(piece), 4096):
                bytes_ = piece[page : page + 4096]
                if bytes_.strip(b"\0"):
                    digest.update(b"%d:" % (at + page))
                    digest.update(bytes_)
            at += len(piece)
            if not piece:
                break
    os.close(file)
    return digest.hexdigest()


def attributes(fd, name):
    path = b"/proc/self/fd/%d/%s" % (fd, name)
    found = {}
    for key in os.listxattr(path, follow_symlinks=False):
        key = os.fsencode(key)
        if key.startswith(CARRIED):
            found[key] = os.getxattr(path, key, follow_symlinks=False)
    return found


def describe(root):
    tree, first = {}, {}
    top = os.open(root, os.O_DIRECTORY)
    here = [(b".", os.fstat(top), top, b".")]
    for source in (here, walk(top, b".")):
        for path, found, fd, name in source:
            if path.startswith(b"./.holdfast-transfer"):
                continue
            kind = stat.S_IFMT(found.st_mode)
            what = {
                "mode": oct(found.st_mode),
                "owner": (found.st_uid, found.st_gid),
                "time": found.st_mtime_ns,
                "attributes": attributes(fd, name),
            }
            if kind == stat.S_IFREG:
                what["length"] = found.st_size
                what["content"] = content(fd, name, found.st_size)
                what["has holes"] = found.st_blocks * 512 + (1 << 20) < found.st_size
            elif kind == stat.S_IFLNK:
                what["target"] = os.readlink(name, dir_fd=fd)
            elif kind in (stat.S_IFCHR, stat.S_IFBLK):
                what["number"] = found.st_rdev
            if kind != stat.S_IFDIR:
                what["names"] = found.st_nlink
                inode = (found.st_dev, found.st_ino)
                first.setdefault(inode, []).append(path)
            tree[path] = what
    for paths in first.values():
        for path in paths:
            tree[path]["same as"] = min(paths)
    return tree


def compare(a, b):
    left, right = describe(a), describe(b)
    differences = []
    for path in sorted(left.keys() | right.keys()):
        for key in sorted((left.get(path) or {}).keys() | (right.get(path) or {}).keys()):
            one, two = (tree.get(path, {}).get(key) for tree in (left, right))
            if one != two:
                differences.append(f"{path!r}: {key}: {one!r} and {two!r}")
    print("\n".join(differences[:50]))
    print(f"{len(left)} objects, {len(differences)} differences")
    return 1 if differences else 0


def manifest(path, count):
    digest = hashlib.sha256()
    with open(path, "wb") as file:

        def take(text):
            digest.update(text.encode())
            file.write(text.encode())

        take("holdfast-manifest 2\n")
        for number in range(count):
            take("same one two\n" if number < count // 2 else f"same one gone/{number}\n")
        take(f"total 0 0 {count}\n")
        file.write(f"sum {digest.hexdigest()}\n".encode())


if __name__ == "__main__":
    sys.setrecursionlimit(10000)
    if sys.argv[1] == "make":
        make(os.fsencode(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1] == "manifest":
        manifest(os.fsencode(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.exit(compare(os.fsencode(sys.argv[2]), os.fsencode(sys.argv[3])))
