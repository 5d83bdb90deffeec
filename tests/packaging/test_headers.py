"""The C headers compile as standard C11, and in the mode of Visual C++, with its definitions of 64-bit Windows.

clang checks both, without a library: what the headers use of it is declared here.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "dualflow"
ROOMS = ("core", "evolution", "interior", "online", "working_set")
LIBRARY = {
    "stddef.h": "typedef long long ptrdiff_t; typedef unsigned long long size_t;\n#define NULL ((void *)0)\n",
    "stdlib.h": '#include "stddef.h"\nvoid *malloc(size_t); void *calloc(size_t, size_t); void free(void *);\n',
    "string.h": '#include "stddef.h"\nvoid *memcpy(void *, const void *, size_t); void *memset(void *, int, size_t);\n'
    "void *memmove(void *, const void *, size_t); int memcmp(const void *, const void *, size_t);\n"
    "void *memchr(const void *, int, size_t);\n",
    "stdint.h": "typedef int int32_t; typedef unsigned uint32_t; typedef long long int64_t;\n"
    "typedef unsigned long long uint64_t;\n",
    "math.h": "double sqrt(double); double fabs(double); double exp(double); float sqrtf(float); float fabsf(float);\n"
    "double floor(double); double ceil(double); double fmax(double, double); double fmin(double, double);\n"
    "#define INFINITY ((float)(1e300 * 1e300))\n",
    "float.h": "#define DBL_EPSILON 2.220446049250313e-16\n#define FLT_EPSILON 1.1920929e-7f\n"
    "#define DBL_MAX 1.7976931348623157e308\n#define DBL_MIN 2.2250738585072014e-308\n"
    "#define FLT_MAX 3.402823466e38f\n",
}
TWICE = '#define REAL {0}\n#include "radial.h"\n#include "hamming.h"\n#undef REAL\n'
UNITS = {stem: f'#include "{stem}.h"\n' for stem in ("loop", "mating", "passes", "path", "points")} | {
    "radial": '#include "clones.h"\n#include "exponential.h"\n' + TWICE.format("float") + TWICE.format("double")
}
#: Visual C++ has no attributes; "@" is no C.
VISUAL = ("--target=x86_64-pc-windows-msvc", "-fms-compatibility-version=19.40", "-U__clang__", "-D__attribute__(x)=@")
TARGETS = {"C11": ("-std=c11", "-pedantic"), "Visual C++": ("-std=c11", *VISUAL)}


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang checks the headers: apt-get install clang")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("unit", UNITS)
def test_headers_compile(unit, target, tmp_path):
    for name, text in LIBRARY.items():
        (tmp_path / name).write_text(f"#pragma once\n{text}", encoding="utf-8")
    source = tmp_path / f"{unit}.c"
    source.write_text(UNITS[unit], encoding="utf-8")
    command = ["clang", "-fsyntax-only", "-nostdinc", f"-I{tmp_path}", *(f"-I{PACKAGE / room}" for room in ROOMS)]
    # Arrays of variable length are an error of Visual C++; the macro of clang is not there.
    flags = ["-Wall", "-Wextra", "-Wvla", "-Werror", "-Wno-unused-function", "-Wno-builtin-macro-redefined"]
    flags += ["-Wno-unknown-pragmas", "-Wno-incompatible-library-redeclaration"]
    run = subprocess.run([*command, *flags, *TARGETS[target], source], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
