#!/usr/bin/env python3
"""Compares every step of the samplers with diffusers' schedulers, from the same noise and with the same toy network.

    denoising_parity.py --trace PATH/denoising_trace

Needs torch and diffusers; exit code 77 without them. Exit code 1 if a state differs by more than 1e-4 of its largest
number, or if timesteps differ.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

LIMIT = 1e-4
STEPS = {"ddpm": (25, 1000), "ddim": (10, 50), "dpm-solver++": (8, 20, 50)}
BETAS = {"linear": (1e-4, 0.02), "scaled_linear": (0.00085, 0.012), "squaredcos_cap_v2": (1e-4, 0.02)}


def alpha_products(schedule, first, last):
    import torch
    if schedule == "linear":
        betas = torch.linspace(first, last, 1000, dtype=torch.float64)
    elif schedule == "scaled_linear":
        betas = torch.linspace(first ** 0.5, last ** 0.5, 1000, dtype=torch.float64) ** 2
    else:
        from diffusers.schedulers.scheduling_ddpm import betas_for_alpha_bar
        betas = betas_for_alpha_bar(1000).double()
    return torch.cumprod(1 - betas, 0)


def scheduler_of(case):
    import diffusers
    first, last = BETAS[case["schedule"]]
    common = dict(beta_schedule=case["schedule"], beta_start=first, beta_end=last, prediction_type=case["prediction"],
                  steps_offset=case["offset"])
    if case["method"] == "dpm-solver++":
        return diffusers.DPMSolverMultistepScheduler(**common)
    common["clip_sample"] = case["clips"]
    if case["method"] == "ddpm":
        scheduler = diffusers.DDPMScheduler(**common)
    else:
        scheduler = diffusers.DDIMScheduler(**common, set_alpha_to_one=case["alpha_to_one"])
    # Its tables are fp32, and 1 - alphas_cumprod has an error of 3e-4 at the last of 1000 steps: here fp64.
    scheduler.alphas_cumprod = alpha_products(case["schedule"], first, last)
    if not case["alpha_to_one"]:
        scheduler.final_alpha_cumprod = scheduler.alphas_cumprod[0]
    return scheduler


def all_cases():
    for method, all_steps in STEPS.items():
        for steps in all_steps:
            for schedule in BETAS:
                for prediction in ("epsilon", "v_prediction", "sample"):
                    if method == "dpm-solver++" and schedule == "squaredcos_cap_v2":
                        continue  # diffusers takes other timesteps there, cut off at lambda_min_clipped
                    # Unclipped, "cosine" divides by 5e-5 at its first step.
                    yield dict(method=method, steps=steps, schedule=schedule, prediction=prediction,
                               clips=schedule != "scaled_linear", offset=0, alpha_to_one=True)
    # As in Stable Diffusion's folders.
    for method, alpha_to_one in (("ddpm", True), ("ddim", True), ("ddim", False), ("dpm-solver++", True)):
        for steps in (1, 20, 50):
            if (method, steps) != ("dpm-solver++", 1):
                for prediction in ("epsilon", "v_prediction"):
                    yield dict(method=method, steps=steps, schedule="scaled_linear", prediction=prediction, clips=False,
                               offset=1, alpha_to_one=alpha_to_one)


def compare(trace, case, out, torch):
    """(largest error of a state, whether timesteps agree)."""
    steps = case["steps"]
    start, noises = torch.randn(1, 3, 4, 4), torch.randn(steps, 1, 3, 4, 4)
    lines = [" ".join(repr(v) for v in t.flatten().tolist()) for t in (start, *noises)]
    subprocess.run([trace, out, case["method"], case["schedule"], case["prediction"], str(steps), str(int(case["clips"])),
                    str(case["offset"]), str(int(case["alpha_to_one"]))], input="\n".join(lines) + "\n", text=True, check=True)
    ours = [line.split() for line in out.read_text().splitlines()]
    expected = theirs(scheduler_of(case), steps, start, noises, torch)
    worst = 0.0
    for line, (_, state) in zip(ours, expected):
        mine = torch.tensor([float(v) for v in line[1:]])
        scale = max(1.0, float(state.abs().max()))
        worst = max(worst, float((mine - state.flatten().float()).abs().max()) / scale)
    return worst, [int(line[0]) for line in ours] == [t for t, _ in expected]


def theirs(scheduler, steps, start, noises, torch):
    """(timestep, state) after each step, with the noise that the trace gets."""
    scheduler.set_timesteps(steps)
    x, states = start.double(), []
    for step, t in enumerate(scheduler.timesteps):
        prediction = 0.5 * torch.tanh(x) + 0.1 * torch.sin(0.01 * t.float())
        if type(scheduler).__name__ == "DDPMScheduler":
            import diffusers.schedulers.scheduling_ddpm as module
            module.randn_tensor = lambda shape, step=step, **_: noises[step].double().reshape(shape)
        x = scheduler.step(prediction, t, x).prev_sample
        states.append((int(t), x.clone()))
    return states


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", required=True, help="the program denoising_trace")
    args = parser.parse_args()
    try:
        import diffusers  # noqa: F401
        import torch
    except ImportError as error:
        print(f"skipped: {error}; set TRIREME_TORCH_PYTHON to an interpreter with torch and diffusers")
        return 77
    torch.manual_seed(1)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="trireme-parity-") as folder:
        out = pathlib.Path(folder) / "states"
        for case in all_cases():
            worst, same_times = compare(args.trace, case, out, torch)
            good = same_times and worst <= LIMIT
            failures += not good
            name = ", ".join(f"{key} {value}" for key, value in case.items())
            print(f"{'ok' if good else 'FAILED'}: {name}: {worst:.2e}{'' if same_times else ', other timesteps'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
