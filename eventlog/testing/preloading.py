"""
Failing the system under a library in C, by a shim that is loaded before it.

Needs a C compiler and a loader with ``LD_PRELOAD``. The shim counts the writes, syncs and
truncations of files whose name contains a word, in the process that is started with it,
and lets one of them go wrong.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["build_shim", "compiler", "run_with_fault"]

SOURCE: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static long taken;

/* Whether this step is the one that goes wrong: 0 no, 1 fail, 2 short. */
static int strikes(int fd) {
    const char *word = getenv("EVENTLOG_FAULT_WORD");
    if (!word) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    if (!strstr(path, word)) return 0;
    long at = atol(getenv("EVENTLOG_FAULT_AT"));
    long number = __sync_add_and_fetch(&taken, 1);
    const char *count = getenv("EVENTLOG_FAULT_COUNT");
    if (count) {
        FILE *file = fopen(count, "w");
        if (file) { fprintf(file, "%ld", number); fclose(file); }
    }
    if (number != at) return 0;
    const char *kind = getenv("EVENTLOG_FAULT_KIND");
    if (kind && !strcmp(kind, "die")) kill(getpid(), SIGKILL);
    if (kind && !strcmp(kind, "short")) return 2;
    errno = atoi(getenv("EVENTLOG_FAULT_CODE"));
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size) {
    int how = strikes(fd);
    if (how == 1) return -1;
    return REAL(write)(fd, data, how == 2 ? size / 2 : size);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    int how = strikes(fd);
    if (how == 1) return -1;
    return REAL(pwrite)(fd, data, how == 2 ? size / 2 : size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    int how = strikes(fd);
    if (how == 1) return -1;
    return REAL(pwrite64)(fd, data, how == 2 ? size / 2 : size, at);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (strikes(fd)) return -1;
    return REAL(writev)(fd, parts, count);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    if (strikes(fd)) return -1;
    return REAL(pwritev)(fd, parts, count, at);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
    if (strikes(fd)) return -1;
    return REAL(pwritev64)(fd, parts, count, at);
}
int fsync(int fd) { return strikes(fd) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return strikes(fd) ? -1 : REAL(fdatasync)(fd); }
int ftruncate(int fd, off_t size) { return strikes(fd) ? -1 : REAL(ftruncate)(fd, size); }
int ftruncate64(int fd, off64_t size) {
    return strikes(fd) ? -1 : REAL(ftruncate64)(fd, size);
}
"""


def compiler() -> str | None:
    """Return a C compiler's path; None where there is none, or no way to use the shim."""
    if not sys.platform.startswith("linux"):
        return None
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build_shim(folder: Path) -> Path:
    """
    Compile the shim into *folder*.

    Raises:
        RuntimeError: There is no compiler, or it refuses.
    """
    found = compiler()
    if found is None:
        raise RuntimeError("needs a C compiler on Linux")
    source, library = folder / "faults.c", folder / "faults.so"
    source.write_text(SOURCE)
    done = subprocess.run(
        [found, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return library


def run_with_fault(
    shim: Path,
    program: Sequence[str],
    *,
    word: str,
    at: int,
    kind: str = "fail",
    code: int = errno.EIO,
    count: Path,
    environ: dict[str, str] | None = None,
) -> tuple[subprocess.CompletedProcess[str], int]:
    """
    Run *program* with its *at*-th step on files named by *word* going wrong.

    Args:
        kind: ``"fail"`` with *code*, ``"short"`` or ``"die"``.

        count: A file for the number of steps.

    Returns:
        What became of it, and how many steps it took.
    """
    count.write_text("0")
    done = subprocess.run(
        program,
        env={
            **(os.environ if environ is None else environ),
            "LD_PRELOAD": str(shim),
            "EVENTLOG_FAULT_WORD": word,
            "EVENTLOG_FAULT_AT": str(at),
            "EVENTLOG_FAULT_KIND": kind,
            "EVENTLOG_FAULT_CODE": str(code),
            "EVENTLOG_FAULT_COUNT": str(count),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done, int(count.read_text() or 0)
