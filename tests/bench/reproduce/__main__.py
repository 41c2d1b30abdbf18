"""Repeats the documented gains of mixed precision, ZeRO, pipelines, recompute and the rest on this machine, each as jobs run
side by side in turns, and writes a report: report.html, report.md and results.json beside the files of every run."""
import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE))
from compare import print_agreement, print_comparison  # noqa: E402
from experiment import MATRIX, ExperimentError, read_experiments  # noqa: E402
from inputs import TRAIN_SHAPES, prepare_pictures, prepare_shapes, prepare_text, substitute  # noqa: E402
from job_runs import JobRunner  # noqa: E402
from library import keep, kept_files, machines_text, pages_differ, read_results, waterfall, write_pages  # noqa: E402
from machine import cores, machine_facts, num_gpus, why_no_cuda, why_no_namespaces  # noqa: E402
from matrix import cells, read_matrix, run_matrix, write_csv  # noqa: E402
from measure import Options, num_rounds, run_experiment, why_not  # noqa: E402
from peer import peer_version, why_no_peer  # noqa: E402


def default_program():
    """A bundle (third_party/bundle.sh) has one that finds its libraries."""
    packed = ROOT / "trireme"
    return packed if packed.is_file() else ROOT / "build/release/bin/trireme"


def parse_options():
    parser = argparse.ArgumentParser(prog="reproduce", description=__doc__.replace("\n", " "))
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="the default: 20 minutes on 2 cores")
    size.add_argument("--full", action="store_true", help="more rounds and longer jobs")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these experiments")
    parser.add_argument("--list", action="store_true", help="name the experiments and end")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run: what is finished stays")
    parser.add_argument("--compare", metavar="OLD.json", help="name what is slower or larger than in earlier results, and count the "
                        "experiments whose intervals overlap")
    parser.add_argument("--of", metavar="NEW.json", help="run nothing: compare or keep these results")
    parser.add_argument("--gpu", action="store_true", help="the experiments of a GPU, in less than 8 minutes; those of --only, "
                        "each job on the GPU")
    parser.add_argument("--dry-run", action="store_true", help="with --gpu: the same on the CPU with tiny jobs, whose figures mean "
                        "nothing")
    parser.add_argument("--peer", metavar="PYTHON", help="a Python with PyTorch, for the experiments beside it")
    parser.add_argument("--keep", action="store_true", help="put the results among tests/bench/results, by machine")
    parser.add_argument("--machines", nargs="*", metavar="FILE", help="run nothing: print kept results side by side "
                        "(default: all of tests/bench/results)")
    parser.add_argument("--pages", action="store_true", help="run nothing: write the pages that show the kept results")
    parser.add_argument("--check-pages", action="store_true", help="run nothing: whether those pages are as --pages writes them")
    parser.add_argument("--out", default="out/reproduce", help="folder of the report (default: %(default)s)")
    parser.add_argument("--trireme", default=str(default_program()), help="the program (default: %(default)s)")
    parser.add_argument("--experiments", default=str(ROOT / "examples/reproduce"), help="folder of the experiments")
    return parser.parse_args()


def chosen_experiments(options):
    """(experiments, the matrix or None), as --only says."""
    folder = Path(options.experiments)
    experiments = read_experiments(folder)
    matrix = read_matrix(folder / MATRIX) if (folder / MATRIX).exists() else None
    known = [experiment.name for experiment in experiments] + ([matrix.name] if matrix else [])
    unknown = [name for name in options.only or [] if name not in known]
    if unknown:
        raise ExperimentError(f"--only {' '.join(unknown)}: no such experiment; there are {', '.join(known)}")
    wanted = set(options.only or known)
    return ([experiment for experiment in experiments if experiment.name in wanted],
            matrix if matrix and matrix.name in wanted else None)


class Progress:
    """A line for each run, with the time that is left at the pace of those that were really run."""

    def __init__(self, runs, runner):
        self.runs, self.runner = runs, runner
        self.done, self.ran, self.started, self.processes = 0, 0, time.monotonic(), 0

    def __call__(self, what):
        spent = time.monotonic() - self.started
        self.ran += self.runner.started > self.processes
        self.processes = self.runner.started
        left = f", about {spent / self.ran * (self.runs - self.done) / 60:.0f} min left" if self.ran > 2 else ""
        self.done += 1
        print(f"[{int(spent) // 60:02}:{int(spent) % 60:02}] {self.done}/{self.runs} {what}{left}", flush=True)


def num_runs(experiment, how):
    if why_not(experiment, how):
        return 0
    return num_rounds(experiment, how) * len([one for one in experiment.variants if not (one.peer and how.no_peer)])


def how_to_run(options, experiments, trireme):
    """What this machine has for them."""
    links = any(variant.link for experiment in experiments for variant in experiment.variants)
    peers = any(variant.peer for experiment in experiments for variant in experiment.variants)
    gpu = options.gpu or any(experiment.needs.get("gpu") for experiment in experiments)
    pictures = importlib.util.find_spec("PIL") is not None
    return Options(full=options.full, cores=cores(), gpu=options.gpu, gpus=num_gpus(), named=bool(options.only), dry=options.dry_run,
                   no_pictures="" if pictures else f"it needs pictures, and {sys.executable} has no Pillow to make them",
                   no_cuda=why_no_cuda(trireme) if gpu else "", no_namespaces=why_no_namespaces() if links else "",
                   no_peer=why_no_peer(options.peer) if peers else "")


def without_runs(options):
    """The exit code of what needs no run; None: runs are wanted."""
    if options.of and not (options.compare or options.keep):
        raise ExperimentError(f"--of {options.of}: say what to do with it, --compare OLD.json or --keep")
    if options.compare:
        read_results(options.compare)  # before anything runs
    if options.of:
        new = read_results(options.of)
        if options.keep:
            print(f"kept: {keep(new, ROOT)}; --pages writes the pages anew")
        if not options.compare:
            return 0
        old = read_results(options.compare)
        print_agreement(old, new)
        return 1 if print_comparison(old, new) else 0
    if options.machines is not None:
        print(machines_text(options.machines or kept_files(ROOT)))
        return 0
    if options.pages:
        write_pages(ROOT)
        return 0
    if options.check_pages:
        for page in pages_differ(ROOT):
            print(f"{page} is not what --pages writes")
        return 1 if pages_differ(ROOT) else 0
    return None


def prepare_inputs(experiments, how, trireme, folder):
    """Makes what the experiments that run here read, and puts the folders into their jobs."""
    wanted = {need for experiment in experiments if not why_not(experiment, how) for need in experiment.needs}
    folder.mkdir(parents=True, exist_ok=True)
    places = {}
    if "text" in wanted:
        places["text"] = prepare_text(trireme, folder)
    if "pictures" in wanted:
        places["pictures"] = prepare_pictures(folder)
    places.update({name: prepare_shapes(folder, name) for name in TRAIN_SHAPES if name in wanted})
    for experiment in experiments:
        if not why_not(experiment, how):
            experiment.job = substitute(experiment.job, places)


def check_program(trireme):
    if not trireme.is_file():
        raise ExperimentError(f"there is no program {trireme}: build it, or name it with --trireme")
    try:
        said = subprocess.run([str(trireme), "--version"], capture_output=True, text=True).stdout
    except (OSError, UnicodeDecodeError) as error:
        raise ExperimentError(f"--trireme {trireme} cannot be run: {error}") from None
    if not said.startswith("trireme "):
        raise ExperimentError(f"--trireme {trireme} is no trireme: its --version says '{said.strip()[:60]}'")


def main():
    options = parse_options()
    if options.keep and options.only:
        raise ExperimentError("--keep wants all experiments: leave --only out")
    done = without_runs(options)
    if done is not None:
        return done
    if options.dry_run and not options.gpu:
        raise ExperimentError("--dry-run rehearses --gpu: give both")
    experiments, matrix = chosen_experiments(options)
    if options.gpu and not options.only:
        matrix = None
    if options.list:
        for experiment in experiments:
            print(f"{experiment.name:22} {experiment.title}")
        if matrix:
            print(f"{matrix.name:22} Model x batch x size x optimizer x precision: {len(list(cells(matrix)))} short runs")
        return 0
    draws = importlib.util.find_spec("matplotlib") is not None
    if not draws and not options.gpu:  # before anything runs: only the report imports it
        raise ExperimentError(f"{sys.executable} has no matplotlib, which draws the report: use examples/reproduce.sh, "
                              "or /usr/bin/python3 with Debian's python3-matplotlib")
    trireme = Path(options.trireme).resolve()
    check_program(trireme)
    out = Path(options.out).resolve()
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "results.json").touch()
    except OSError as error:
        raise ExperimentError(f"--out {out} cannot be written: {error.strerror}") from None
    if not options.resume:
        for part in (*experiments, *([matrix] if matrix else [])):
            shutil.rmtree(out / "runs" / part.name, ignore_errors=True)
    facts = machine_facts(trireme) | {"pytorch": peer_version(options.peer) if options.peer else ""}
    how = how_to_run(options, experiments, trireme)
    prepare_inputs(experiments, how, trireme, out / "inputs")
    runner = JobRunner(trireme, out / "runs", facts["build"], peer=options.peer or "")
    num_cells = len(list(cells(matrix))) if matrix else 0
    progress = Progress(sum(num_runs(experiment, how) for experiment in experiments) + num_cells, runner)
    results = {"machine": facts, "full": options.full, "only": options.only or [],
               "experiments": [run_experiment(experiment, runner, how, progress) for experiment in experiments],
               "matrix": run_matrix(matrix, runner, how, progress) if matrix else []}
    results["picture"] = waterfall(results, experiments)
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    if matrix:
        write_csv(results["matrix"], out / "matrix.csv")
    from report import count_of, verdict_of, write_report
    if draws:
        write_report(results, experiments, out)
    for result in results["experiments"]:
        print(f"{result['name']}: {verdict_of(result)}{count_of(result) and f' ({count_of(result)})'}"
              f"{result['reason'] and ': ' + result['reason']}")
    print(f"report: {out / 'report.html'}, {out / 'report.md'}, {out / 'results.json'}" if draws else
          f"results: {out / 'results.json'}; {sys.executable} has no matplotlib to draw the report")
    failed = [result["name"] for result in results["experiments"] if result.get("failed")]
    for result in results["experiments"]:
        if result.get("failed"):
            print(f"reproduce: {result['name']} failed: {result['reason']}", file=sys.stderr)
    if options.keep:
        print(f"kept: {keep(results, ROOT)}; --pages writes the pages anew")
    worse = False
    if options.compare:
        old = read_results(options.compare)
        print_agreement(old, results)
        worse = print_comparison(old, results)
    return 1 if failed or worse else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ExperimentError as error:
        print(f"reproduce: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("reproduce: stopped; --resume goes on with it", file=sys.stderr)
        sys.exit(75)
