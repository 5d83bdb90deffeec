"""Fuzz the readers of files: ``python -m tests.fuzz [target …] --minutes 10 [--engine random|atheris] [--seed 0]``.

Inputs that break something are kept in a folder, named by their digest, and make the exit code 1. The engine "random"
mutates seeds, and what was read without complaint, by the structure of their formats; "atheris" (``pip install
'dualflow[fuzz]'``) adds coverage to the same mutations, one target a run.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
import traceback
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .targets import Target

__all__ = ["fuzz", "main"]

#: Seconds that no input of a few kB may take, on a busy machine either; and memory beyond what is there at the start.
SLOW_S, MEMORY_BYTES = 10.0, 3 << 30
#: Inputs kept to be mutated further.
POOL = 400


def fuzz(target: Target, seed: int, seconds: float = float("inf"), executions: int = sys.maxsize) -> tuple[int, list]:
    """Run mutated inputs until a limit.

    Returns
    -------
    executions : int
    found : list of (bytes, str)
        Inputs that break something, and how: one of each kind.
    """
    rng, pool, found = Random(f"{target.name} {seed}"), list(target.seeds()), {}
    for content in pool:
        target(content)  # a seed that fails is no seed
    done, until = 0, time.monotonic() + seconds
    while done < executions and time.monotonic() < until:
        content = target.mutate(rng, rng.choice(pool))
        began, trouble = time.monotonic(), None
        try:
            target(content)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            trouble = f"{type(error).__name__}: {str(error)[:300]} ({Path(where.filename).name}:{where.lineno})"
        else:
            if len(content) < 1 << 16:
                pool[rng.randrange(len(pool)) if len(pool) >= POOL else len(pool) :][:1] = [content]
        if (took := time.monotonic() - began) > SLOW_S:
            trouble = f"took {took:.0f} s"
        if trouble is not None:
            found.setdefault(trouble.partition("(")[0][:80], (content, trouble))
        done += 1
    return done, list(found.values())


def _with_atheris(target: Target, seed: int, seconds: float, folder: Path) -> None:
    import atheris

    corpus = folder / f"{target.name}-corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for k, content in enumerate(target.seeds()):
        (corpus / f"seed-{k}").write_bytes(content)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        rng = Random(seed)
        if rng.random() < 0.2:
            return atheris.Mutate(data, max_size)
        return target.mutate(rng, bytes(data))[:max_size]

    options = [f"-max_total_time={seconds:.0f}", f"-timeout={SLOW_S:.0f}", f"-seed={seed + 1}", "-max_len=65536"]
    options += [f"-rss_limit_mb={(MEMORY_BYTES >> 20) + 1000}", f"-artifact_prefix={folder}/{target.name}-"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], target, custom_mutator=mutate)
    atheris.Fuzz()


def _targets(engine: str) -> dict[str, Target]:
    """By name; for atheris, dualflow is imported with its branches counted."""
    if engine == "atheris":
        import atheris

        with atheris.instrument_imports(include=["dualflow"]):
            from .targets import TARGETS
    else:
        from .targets import TARGETS
    return TARGETS


def _limit_memory() -> None:
    """What asks for much more memory than there is now gets a MemoryError."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))


def main() -> int:
    """The command line; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="target", help="all by default")
    parser.add_argument("--minutes", type=float, default=10.0, help="for each target")
    parser.add_argument("--engine", choices=("random", "atheris"), default="random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="folder of what was found")
    chosen = parser.parse_args()
    targets = _targets(chosen.engine)
    if unknown := set(chosen.targets) - set(targets):
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(targets)}")
    if chosen.engine == "atheris":
        if len(chosen.targets) != 1:
            parser.error("atheris takes one target a run")
        _with_atheris(targets[chosen.targets[0]], chosen.seed, 60.0 * chosen.minutes, chosen.keep)
        return 0
    failed = 0
    for name in chosen.targets or targets:
        target = targets[name]
        target.seeds()
        _limit_memory()
        done, found = fuzz(target, chosen.seed, 60.0 * chosen.minutes)
        print(f"{name}: {done} executions, seed {chosen.seed}, {len(found)} found", flush=True)
        for content, trouble in found:
            chosen.keep.mkdir(parents=True, exist_ok=True)
            path = chosen.keep / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
            path.write_bytes(content)
            print(f"  {path}: {trouble}", flush=True)
        failed |= bool(found)
    return failed


if __name__ == "__main__":
    sys.exit(main())
