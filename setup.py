"""Build the compiled modules. All other settings of the package are in pyproject.toml."""

import os
import platform
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, CompileError, ExecError, PlatformError

FLAGS = STRICT = ["/O2", "/fp:precise", "/utf-8"]
if sys.platform != "win32":
    # Finite math lets the compiler vectorise minimum and maximum. -ffast-math is not used: a library linked with it
    # turns denormals into 0 in the whole process that loads it.
    # There is no -march: the files choose the vector width at load time (core/clones.h).
    FLAGS = ["-O3", "-ffinite-math-only", "-fno-signed-zeros", "-fno-math-errno", "-fno-trapping-math"]
    # Python's own flags ask for debug symbols, seven tenths of a wheel; they are kept where CFLAGS asks for them.
    if "-g" not in os.environ.get("CFLAGS", "").split():
        FLAGS.append("-g0")
    # For x86-64 alone: elsewhere the flag has no effect, and clang rejects it when it compiles for another machine.
    if sys.platform == "linux" and platform.machine() == "x86_64":
        FLAGS.append("-mprefer-vector-width=512")
    # For modules that compute with infinite bounds.
    STRICT = [flag for flag in FLAGS if flag not in ("-ffinite-math-only", "-fno-signed-zeros")]


class Build(build_ext):
    """Compile the modules in parallel; without a C compiler, raise an error that says how to install one."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        try:
            super().run()
        except (CCompilerError, CompileError, ExecError, PlatformError, FileNotFoundError) as error:
            raise SystemExit(
                "dualflow compiles fifteen C files (kernel, points, bounds, memory, mating, passes, path, pairs); "
                f"that failed:\n  {error}\n"
                "A C compiler and Python's headers are needed: on Debian or Ubuntu `apt-get install gcc python3-dev`, "
                "on Fedora `dnf install gcc python3-devel`, on macOS `xcode-select --install`, on Windows the Visual "
                "Studio Build Tools with C++."
            ) from error


def compiled(name: str, *headers: str, flags: list[str] = FLAGS) -> Extension:
    """Return the extension module ``dualflow.<name>``; it is recompiled if one of the headers changes."""
    folder, stem = f"src/dualflow/{name.rpartition('.')[0].replace('.', '/')}", name.rpartition(".")[2]
    return Extension(
        f"dualflow.{name}",
        [f"{folder}/{stem}.pyx"],
        depends=[f"src/dualflow/{header}" for header in headers],
        include_dirs=[
            "src/dualflow/core",
            "src/dualflow/evolution",
            "src/dualflow/interior",
            "src/dualflow/online",
            "src/dualflow/working_set",
        ],
        extra_compile_args=flags,
    )


RADIAL = ("core/clones.h", "core/exponential.h", "core/pack.h", "core/radial.h")
LOOP = (
    *(
        f"working_set/{file}"
        for file in ("_loop.pxd", "loop.h", "pairs.h", "rows.h", "part.h", "newton_step.h", "cholesky.h")
    ),
    *RADIAL,
)
FROM_POINTS = ("working_set/_from_points.pxd", "working_set/_wishes.pxd")
setup(
    ext_modules=[
        compiled("core._bound", flags=STRICT),
        compiled("core._pair_bound", "core/_bound.pxd", "core/_pair_bound.pxd", flags=STRICT),
        compiled("core._points", "core/clones.h", "core/points.h", flags=STRICT),
        compiled("core._radial", *RADIAL, "core/hamming.h"),
        compiled("core._sigmoid"),
        compiled("core._sealed", flags=STRICT),
        compiled("evolution._mating", "core/clones.h", "evolution/mating.h"),
        compiled("interior._passes", "core/clones.h", "interior/passes.h", flags=STRICT),
        compiled("online._path", "core/clones.h", "online/path.h", flags=STRICT),
        compiled("online._response", "core/clones.h", "online/path.h", flags=STRICT),
        compiled("working_set._classes", *LOOP, "core/_pair_bound.pxd"),
        compiled("working_set._coordinates", flags=STRICT),
        compiled("working_set._from_points", *LOOP, "working_set/_from_points.pxd"),
        compiled("working_set._pairs", *LOOP),
        compiled("working_set._point_pairs", *LOOP, *FROM_POINTS, "core/_bound.pxd", "core/_pair_bound.pxd"),
        compiled("working_set._wishes", "working_set/_wishes.pxd", flags=STRICT),
    ],
    cmdclass={"build_ext": Build},
)
