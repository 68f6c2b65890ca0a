"""Optuna searches for the block sizes of a matrix product; every trial is a simulated run, kept as a record.

    pip install . optuna                       # in a clone of this repository
    python tune_gemm.py --trials 40
"""

from __future__ import annotations

import argparse

import cubeyard
import optuna


def trial_time(trial: optuna.Trial, size: int) -> float:
    """Returns the time of one choice of blocks, in nanoseconds."""
    blocks = {
        "block_m": trial.suggest_int("block_m", 16, size, step=16),
        "block_k": trial.suggest_int("block_k", 16, size, step=16),
        "block_n": trial.suggest_int("block_n", 16, size, step=16),
    }
    try:
        run = cubeyard.run("gemm", m=size, k=size, n=size, **blocks)
    except cubeyard.errors.InputError as error:
        # Blocks that do not fit the TCM.
        raise optuna.TrialPruned(str(error)) from error
    trial.set_user_attr("record", run.record().line)
    return run.kernel_ns


def main() -> None:
    """Searches, and prints the best blocks beside the default ones."""
    parser = argparse.ArgumentParser(description="Block sizes of a matrix product, by Optuna")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--size", type=int, default=512, help="rows, columns and depth of the product")
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    study.optimize(lambda trial: trial_time(trial, arguments.size), n_trials=arguments.trials)
    size = arguments.size
    default = cubeyard.run("gemm", m=size, k=size, n=size)
    print(f"default blocks: {default.kernel_ns:,.1f} ns, limited by {default.limited_by}")
    print(f"best of {arguments.trials}: {study.best_value:,.1f} ns with {study.best_params}")


if __name__ == "__main__":
    main()
