#!/usr/bin/env python3
"""semantics.py DIR [--below DATA]...: what pjdfstest and fsx do not ask of a file system.

DIR must be on a Holdfast mount. Each DATA is a store's data directory whose root is the mount's
root; what was written through the mount is compared with the copies that are found there.
Needs root. Exit code 0: all checks passed; 1: one failed; 2: it could not run.
"""

import argparse
import ctypes
import errno
import fcntl
import mmap
import os
import shutil
import socket
import stat
import struct
import subprocess
import sys
import tempfile

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
NOREPLACE, EXCHANGE = 1, 2
NOBODY = 65534
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def call(result):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def fallocate(fd, mode, offset, length):
    call(LIBC.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)))


def rename2(old, new, flags):
    call(LIBC.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags))


def fails(number, function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        assert error.errno == number, f"{error} instead of {errno.errorcode[number]}"
        return
    raise AssertionError(f"no {errno.errorcode[number]}")


def write(path, content=b""):
    with open(path, "wb") as file:
        file.write(content)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def as_user(uid, gid, function):
    """Runs the function in a child with these ids and no other groups; returns its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            code = function() or 0
        except OSError as error:
            code = 100 if error.errno in (errno.EACCES, errno.EPERM) else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Place:
    """A fresh directory on the mount, and where its copies are."""

    def __init__(self, path, mount, below):
        self.path, self.mount, self.below = path, mount, below

    def __call__(self, name):
        return os.path.join(self.path, name)

    def copies(self, path):
        relative = os.path.relpath(path, self.mount)
        places = [os.path.join(below, relative) for below in self.below]
        found = [place for place in places if os.path.lexists(place)]
        assert found or not places, f"no copy of {relative}"
        return found


@check
def shared_mapping_reaches_the_copies(place):
    path = place("mapped")
    write(path, b"a" * 100_000)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[50_000:50_005] = b"HELLO"
        mapping.flush()
        for copy in place.copies(path):
            assert read(copy)[50_000:50_005] == b"HELLO", copy
        mapping[99_999:100_000] = b"Z"
    # Written by the unmapping and the sync alone.
    with open(path, "r+b") as file:
        os.fsync(file.fileno())
    for copy in place.copies(path):
        assert read(copy)[-1:] == b"Z", copy


@check
def mapping_and_calls_see_each_other(place):
    path = place("coherent")
    write(path, b"0" * 8192)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        os.pwrite(file.fileno(), b"call", 4096)
        assert mapping[4096:4100] == b"call"
        mapping[0:3] = b"map"
        assert os.pread(file.fileno(), 3, 0) == b"map"


@check
def holes_are_found_and_punched(place):
    with open(place("sparse"), "w+b") as file:
        fd = file.fileno()
        os.pwrite(fd, b"x" * 65536, 1 << 20)
        os.ftruncate(fd, 4 << 20)
        assert os.lseek(fd, 0, os.SEEK_DATA) == 1 << 20
        assert os.lseek(fd, 1 << 20, os.SEEK_HOLE) == (1 << 20) + 65536
        fails(errno.ENXIO, os.lseek, fd, 2 << 20, os.SEEK_DATA)
        before = os.fstat(fd)
        fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 1 << 20, 32768)
        after = os.fstat(fd)
        assert after.st_blocks < before.st_blocks and after.st_size == before.st_size
        assert after.st_mtime_ns > before.st_mtime_ns
        assert os.pread(fd, 65536, 1 << 20) == b"\0" * 32768 + b"x" * 32768
        fallocate(fd, ZERO_RANGE | KEEP_SIZE, (1 << 20) + 32768, 4096)
        assert os.pread(fd, 4096, (1 << 20) + 32768) == b"\0" * 4096
        fallocate(fd, 0, 4 << 20, 4096)
        assert os.fstat(fd).st_size == (4 << 20) + 4096
        fallocate(fd, KEEP_SIZE, 8 << 20, 4096)
        assert os.fstat(fd).st_size == (4 << 20) + 4096


@check
def ranges_are_copied(place):
    content = os.urandom(3 << 20)
    write(place("from"), content)
    with open(place("from"), "rb") as source, open(place("to"), "w+b") as target:
        done = 0
        while done < len(content):
            done += os.copy_file_range(source.fileno(), target.fileno(), len(content) - done)
        assert os.pread(target.fileno(), len(content) + 1, 0) == content
        assert os.copy_file_range(source.fileno(), target.fileno(), 10) == 0, "at the end"
        os.copy_file_range(source.fileno(), target.fileno(), 5, 7, 100)
        assert os.pread(target.fileno(), 5, 100) == content[7:12]
    for copy in place.copies(place("to")):
        assert read(copy)[:100] == content[:100]


@check
def rename_flags_are_honoured(place):
    write(place("a"), b"A")
    os.mkdir(place("b"))
    write(place("b/inner"), b"I")
    fails(errno.EEXIST, rename2, place("a"), place("b"), NOREPLACE)
    rename2(place("a"), place("b"), EXCHANGE)
    assert read(place("b")) == b"A" and read(place("a/inner")) == b"I"
    rename2(place("b"), place("c"), NOREPLACE)
    assert sorted(os.listdir(place(""))) == ["a", "c"]
    os.rename(place("c"), place("a/inner"))
    assert read(place("a/inner")) == b"A"


@check
def two_processes_append_without_loss(place):
    path = place("log")
    write(path)
    children = []
    for letter in (b"a", b"b"):
        child = os.fork()
        if child == 0:
            fd = os.open(path, os.O_WRONLY | os.O_APPEND)
            for _ in range(500):
                os.write(fd, letter * 99 + b"\n")
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    lines = read(path).splitlines()
    assert len(lines) == 1000 and {len(line) for line in lines} == {99}
    assert {len(set(line)) for line in lines} == {1}


@check
def an_unlinked_file_stays_usable(place):
    with open(place("gone"), "w+b") as file:
        fd = file.fileno()
        file.write(b"first")
        file.flush()
        os.unlink(place("gone"))
        assert os.fstat(fd).st_nlink == 0
        assert os.pwrite(fd, b"second", 5) == 6
        assert os.pread(fd, 20, 0) == b"firstsecond"
        os.ftruncate(fd, 3)
        os.fchmod(fd, 0o600)
        os.fsync(fd)
        status = os.fstat(fd)
        assert (status.st_size, stat.S_IMODE(status.st_mode)) == (3, 0o600)
        # The name is free for another file.
        write(place("gone"), b"new")
        assert os.pread(fd, 20, 0) == b"fir" and read(place("gone")) == b"new"
    with open(place("old"), "w+b") as file:
        file.write(b"replaced")
        file.flush()
        write(place("new"), b"new")
        os.rename(place("new"), place("old"))
        assert os.pread(file.fileno(), 20, 0) == b"replaced"


@check
def a_removed_directory_stays_usable(place):
    os.mkdir(place("dir"))
    fd = os.open(place("dir"), os.O_RDONLY | os.O_DIRECTORY)
    os.rmdir(place("dir"))
    assert os.fstat(fd).st_nlink == 0
    assert os.listdir(fd) == []
    fails(errno.ENOENT, lambda: os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


@check
def hard_links_are_one_file(place):
    write(place("a"), b"1")
    os.link(place("a"), place("b"))
    os.mkdir(place("d"))
    os.link(place("b"), place("d/c"))
    first, last = os.stat(place("a")), os.stat(place("d/c"))
    assert first.st_ino == last.st_ino and first.st_nlink == last.st_nlink == 3
    write(place("d/c"), b"22")
    assert read(place("a")) == b"22" and os.stat(place("b")).st_size == 2
    os.unlink(place("a"))
    os.unlink(place("d/c"))
    assert os.stat(place("b")).st_nlink == 1 and read(place("b")) == b"22"


@check
def extended_attributes_are_kept(place):
    path = place("a")
    write(path)
    before = os.stat(path).st_ctime_ns
    os.setxattr(path, "user.note", b"text", os.XATTR_CREATE)
    assert os.stat(path).st_ctime_ns > before
    fails(errno.EEXIST, os.setxattr, path, "user.note", b"", os.XATTR_CREATE)
    fails(errno.ENODATA, os.setxattr, path, "user.none", b"", os.XATTR_REPLACE)
    os.setxattr(path, "trusted.t", b"\0\1")
    os.setxattr(path, "user.long", b"l" * 2000)
    assert sorted(os.listxattr(path)) == ["trusted.t", "user.long", "user.note"]
    assert os.getxattr(path, "user.long") == b"l" * 2000
    os.removexattr(path, "user.note")
    fails(errno.ENODATA, os.getxattr, path, "user.note")
    fails(errno.ENODATA, os.getxattr, path, "trusted.holdfast")
    fails(errno.EPERM, os.setxattr, path, "trusted.holdfast", b"x")
    fails(errno.EPERM, os.removexattr, path, "trusted.holdfast")


def acl(*entries):
    """Version 2 of linux/posix_acl_xattr.h: tag, permissions, id."""
    body = b"".join(struct.pack("<HHI", *entry) for entry in entries)
    return struct.pack("<I", 2) + body


ANY = 0xFFFFFFFF
USER_OBJ, USER, GROUP_OBJ, MASK, OTHER = 1, 2, 4, 16, 32


@check
def access_lists_are_honoured(place):
    path = place("private")
    write(path, b"secret")
    os.chmod(path, 0o600)
    assert as_user(NOBODY, NOBODY, lambda: read(path) and 0) == 100
    entries = [(USER_OBJ, 6, ANY), (USER, 4, NOBODY), (GROUP_OBJ, 0, ANY)]
    os.setxattr(path, "system.posix_acl_access", acl(*entries, (MASK, 4, ANY), (OTHER, 0, ANY)))
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640, "the mask shows as the group's bits"
    assert as_user(NOBODY, NOBODY, lambda: read(path) and 0) == 0
    assert as_user(NOBODY - 1, NOBODY - 1, lambda: read(path) and 0) == 100
    os.chmod(path, 0o600)
    assert as_user(NOBODY, NOBODY, lambda: read(path) and 0) == 100, "chmod sets the mask"


@check
def a_default_access_list_is_inherited(place):
    os.mkdir(place("d"))
    entries = [(USER_OBJ, 7, ANY), (USER, 7, NOBODY), (GROUP_OBJ, 5, ANY), (MASK, 7, ANY)]
    os.setxattr(place("d"), "system.posix_acl_default", acl(*entries, (OTHER, 0, ANY)))
    old = os.umask(0o077)
    try:
        write(place("d/file"))
        os.mkdir(place("d/dir"))
        write(place("plain"))
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(place("d/file")).st_mode) == 0o660, "the umask does not count"
    assert stat.S_IMODE(os.stat(place("plain")).st_mode) == 0o600, "here it does"
    assert os.getxattr(place("d/dir"), "system.posix_acl_default")


@check
def the_caller_is_the_owner(place):
    os.chmod(place(""), 0o777)
    os.mkdir(place("shared"))
    os.chown(place("shared"), 0, 1234)
    os.chmod(place("shared"), 0o2777)

    def work():
        old = os.umask(0)
        write(place("file"))
        os.mkdir(place("dir"))
        os.symlink("x", place("link"))
        os.mkfifo(place("fifo"))
        write(place("shared/file"))
        os.mkdir(place("shared/dir"))
        os.umask(old)

    assert as_user(4321, 5432, work) == 0
    for name in ("file", "dir", "link", "fifo"):
        status = os.lstat(place(name))
        assert (status.st_uid, status.st_gid) == (4321, 5432), name
    for name in ("shared/file", "shared/dir"):
        status = os.lstat(place(name))
        assert (status.st_uid, status.st_gid) == (4321, 1234), name
    assert os.stat(place("shared/dir")).st_mode & stat.S_ISGID
    assert as_user(1, 1, lambda: os.unlink(place("dir/x"))) == 1, "ENOENT"
    assert as_user(1, 1, lambda: os.chmod(place("file"), 0)) == 100


@check
def writing_takes_set_id_bits_away(place):
    path = place("tool")
    for change in ("write", "truncate", "map"):
        write(path, b"#!" * 3000)
        os.chmod(path, 0o6777)

        def work():
            with open(path, "r+b") as file:
                if change == "write":
                    os.pwrite(file.fileno(), b"x", 0)
                elif change == "truncate":
                    os.ftruncate(file.fileno(), 100)
                else:
                    os.fchmod(file.fileno(), 0)

        if change == "map":
            assert as_user(NOBODY, NOBODY, work) == 100
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o6777
        else:
            assert as_user(NOBODY, NOBODY, work) == 0
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o777, change
            for copy in place.copies(path):
                assert stat.S_IMODE(os.stat(copy).st_mode) == 0o777, change
    os.chmod(path, 0o6777)
    with open(path, "r+b") as file:
        file.write(b"root")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o6777, "root keeps them"
    os.chown(path, 1, 1)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o777, "a change of owner does not"


@check
def a_large_directory_is_listed_exactly(place):
    os.mkdir(place("d"))
    fd = os.open(place("d"), os.O_RDONLY)
    names = {f"name-{number:05}" for number in range(50_000)}
    for name in names:
        os.mknod(name, 0o644 | stat.S_IFREG, dir_fd=fd)
    os.close(fd)
    listed = os.listdir(place("d"))
    assert len(listed) == len(names) and set(listed) == names
    # A reader goes on while names go: what stays is seen once.
    seen = []
    with os.scandir(place("d")) as entries:
        for entry in entries:
            seen.append(entry.name)
            if len(seen) == 1000:
                gone = {name for name in names if name[-1] in "37"}
                for name in gone:
                    os.unlink(os.path.join(place("d"), name))
                os.listdir(place("d"))
    assert len(seen) == len(set(seen))
    assert names - gone <= set(seen) <= names
    shutil.rmtree(place("d"))
    assert not os.path.exists(place("d"))


@check
def inode_numbers_agree(place):
    for number in range(100):
        write(place(str(number)))
    os.mkdir(place("d"))
    with os.scandir(place("")) as entries:
        for entry in entries:
            assert entry.inode() == os.lstat(entry.path).st_ino, entry.name


@check
def names_are_any_bytes(place):
    directory = os.fsencode(place(""))
    names = [bytes(b for b in range(1, 256) if b != ord("/")), b"\xff\xfe", b" ", b"\n", b"x" * 255]
    for name in names:
        write(os.path.join(directory, name), name)
    assert sorted(os.listdir(directory)) == sorted(names)
    for name in names:
        assert read(os.path.join(directory, name)) == name
    fails(errno.ENAMETOOLONG, write, os.path.join(directory, b"x" * 256))


@check
def direct_io_and_the_page_cache_agree(place):
    path = place("direct")
    write(path, b"c" * 65536)
    assert read(path)[:1] == b"c"
    with mmap.mmap(-1, 65536) as buffer:
        buffer.write(b"d" * 65536)
        fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        os.pwritev(fd, [memoryview(buffer)[:4096]], 4096)
        assert read(path)[4095:8193] == b"c" + b"d" * 4096 + b"c"
        with open(path, "r+b") as file:
            file.write(b"e")
        assert os.preadv(fd, [memoryview(buffer)[:4096]], 0) == 4096 and buffer[0:2] == b"ec"
        os.close(fd)


@check
def direct_writers_and_mappings_share_a_file(place):
    page, pages, writers = 4096, 64, 4
    path = place("f")
    write(path, bytes(page * pages))
    direct = os.open(path, os.O_RDWR | os.O_DIRECT)
    cached = os.open(path, os.O_RDWR)
    try:
        with mmap.mmap(direct, page * pages, mmap.MAP_SHARED) as mapped:
            assert mapped[:page] == bytes(page)
            children = []
            for writer in range(writers):
                child = os.fork()
                if child == 0:
                    code = 1
                    try:
                        own = os.open(path, os.O_WRONLY | os.O_DIRECT)
                        with mmap.mmap(-1, page) as buffer:
                            buffer[:] = bytes([writer + 1]) * page
                            for at in range(writer, pages, writers):
                                assert os.pwrite(own, buffer, at * page) == page
                        code = 0
                    finally:
                        os._exit(code)
                children.append(child)
            assert all(os.waitpid(child, 0)[1] == 0 for child in children)
            expected = b"".join(bytes([at % writers + 1]) * page for at in range(pages))
            assert os.pread(cached, page * pages, 0) == expected, "seen through the cache"
            assert mapped[:] == expected, "seen through the mapping"
            mapped[5] = 200
            mapped.flush()
        os.pwrite(cached, b"cached", 2 * page)
        with mmap.mmap(-1, page) as buffer:
            assert os.preadv(direct, [buffer], 0) == page
            assert buffer[5] == 200, "a mapping's write seen by direct I/O"
            assert os.preadv(direct, [buffer], 2 * page) == page
            assert buffer[:6] == b"cached", "a cached write seen by direct I/O"
    finally:
        os.close(direct)
        os.close(cached)


@check
def programs_run_and_truncating_opens_work(place):
    shutil.copy("/bin/true", place("true"))
    os.chmod(place("true"), 0o755)
    assert subprocess.run([place("true")], check=False).returncode == 0
    fd = os.open(place("true"), os.O_RDWR | os.O_TRUNC)
    assert os.fstat(fd).st_size == 0
    os.close(fd)
    for copy in place.copies(place("true")):
        assert os.stat(copy).st_size == 0


@check
def locks_work(place):
    path = place("lock")
    write(path)
    with open(path, "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

        def contend():
            with open(path, "r+b") as other:
                fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

        assert as_user(0, 0, contend) != 0
    with open(path, "r+b") as one, open(path, "r+b") as two:
        fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fails(errno.EAGAIN, fcntl.flock, two, fcntl.LOCK_EX | fcntl.LOCK_NB)


@check
def times_are_exact(place):
    path = place("t")
    write(path)
    for nanoseconds in (0, 1, -1, -1_200_000_001, 1_700_000_000_123_456_789, -(1 << 31) * 10**9):
        os.utime(path, ns=(nanoseconds, nanoseconds))
        for _ in range(2):
            status = os.stat(path)
            assert (status.st_atime_ns, status.st_mtime_ns) == (nanoseconds, nanoseconds)
    # The least time must not end the server; the file system below keeps what it can.
    times = (ctypes.c_long * 4)(-(1 << 63), 5, -(1 << 63), 5)
    LIBC.utimensat(AT_FDCWD, os.fsencode(path), times, 0)
    os.utime(path, ns=(7, 7))
    assert os.stat(path).st_mtime_ns == 7


@check
def special_files_work(place):
    os.mknod(place("null"), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    assert os.stat(place("null")).st_rdev == os.makedev(1, 3)
    write(place("null"), b"swallowed")
    assert read(place("null")) == b""
    os.mkfifo(place("fifo"))
    reader = os.open(place("fifo"), os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(place("fifo"), os.O_WRONLY)
    os.write(writer, b"through")
    assert os.read(reader, 10) == b"through"
    os.close(writer)
    os.close(reader)
    here = os.getcwd()
    os.chdir(place(""))
    try:
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind("socket")
            server.listen()
            client.connect("socket")
    finally:
        os.chdir(here)


@check
def strange_requests_are_refused(place):
    write(place("a"))
    with open(place("a"), "r+b") as file:
        fails(errno.ENOTTY, fcntl.ioctl, file, 0x7777, b"\0" * 8)
        fails(errno.EOPNOTSUPP, fallocate, file.fileno(), 0x08, 0, 4096)
        os.fsync(file.fileno())
    fails(errno.EOPNOTSUPP, os.open, place(""), os.O_TMPFILE | os.O_RDWR)
    fd = os.open(place(""), os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    assert os.statvfs(place("a")).f_bavail > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("--below", action="append", default=[])
    parser.add_argument("--only", help="run the checks whose name contains this")
    options = parser.parse_args()
    here = os.path.dirname(os.path.abspath(__file__))
    directory = os.path.abspath(options.directory)
    if subprocess.run([os.path.join(here, "assert-mount"), directory], check=False).returncode:
        return 2
    command = ["findmnt", "--noheadings", "--output", "TARGET", "--target", directory]
    mount = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    failed = 0
    for function in CHECKS:
        if options.only and options.only not in function.__name__:
            continue
        path = tempfile.mkdtemp(prefix="semantics.", dir=directory)
        os.chmod(path, 0o755)
        try:
            function(Place(path, mount, options.below))
            print(f"ok      {function.__name__}")
        except Exception as error:  # one failure must not hide the next
            failed += 1
            line = error.__traceback__.tb_next.tb_lineno if error.__traceback__.tb_next else 0
            print(f"FAILED  {function.__name__}: line {line}: {type(error).__name__} {error}")
        finally:
            shutil.rmtree(path, ignore_errors=True)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
