#!/usr/bin/env python3
"""The form of examples/kubernetes: required keys of the manifests, and packages of the images.

    kubernetes_test.py --trireme build/release/bin/trireme

Exit code 77, which CTest counts as skipped, without PyYAML or on a system that is not Debian 12.
"""
import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "kubernetes"
# Every Debian has it.
ESSENTIAL = {"libc6", "libgcc-s1", "libstdc++6"}
GPU = "nvidia.com/gpu"


def skip(reason):
    # The form in which GoogleTest reports, so that the summary counts and lists it.
    print(f"kubernetes_test.py: Skipped\n{reason}\n[  SKIPPED ] kubernetes (0 ms)\n[  SKIPPED ] 1 test, listed below:")
    sys.exit(77)


def instructions(text):
    """Of a Dockerfile: (NAME, rest), with continued lines joined."""
    joined = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", text))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]


def check_manifest(manifest, options):
    assert (manifest["apiVersion"], manifest["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    spec = manifest["spec"]
    assert set(spec) <= {"mpiImplementation", "slotsPerWorker", "sshAuthMountPath", "runPolicy", "mpiReplicaSpecs"}
    assert set(spec["runPolicy"]) <= {"cleanPodPolicy", "backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds"}
    launcher, worker = (spec["mpiReplicaSpecs"][name] for name in ("Launcher", "Worker"))
    assert launcher["replicas"] == 1
    pods = [replica["template"]["spec"] for replica in (launcher, worker)]
    for pod in pods:
        assert pod["terminationGracePeriodSeconds"] >= 60
        volumes = {volume["name"] for volume in pod["volumes"]}
        (container,) = pod["containers"]
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes, "mounts and volumes differ"
        assert set(container["resources"]["limits"]) >= {"cpu", "memory"}
        assert "livenessProbe" not in container
    line = pods[0]["containers"][0]["command"] + pods[0]["containers"][0]["args"]
    assert line[:2] == ["trireme", "run"]
    # The program takes the line as it is, up to the job file, which is not here.
    done = subprocess.run([options.trireme, *line[1:]], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "/shared/job.toml" in done.stderr, done.stderr
    spares = int(line[line.index("--spares") + 1])
    slots = (worker["replicas"] - spares) * spec["slotsPerWorker"]
    assert any(word.startswith("parallel.memory_limit=") for word in line), "the launcher's memory is not a worker's"
    gpus = pods[1]["containers"][0]["resources"]["limits"].get(GPU, 0)
    assert gpus in (0, spec["slotsPerWorker"]), f"{gpus} GPUs for {spec['slotsPerWorker']} ranks"
    assert GPU not in pods[0]["containers"][0]["resources"]["limits"], "the launcher has no ranks"
    assert int(line[line.index("--ranks") + 1].split(":")[1]) == slots, f"{slots} slots beside the spares"
    port = pods[1]["containers"][0]["ports"][0]["containerPort"]
    assert pods[1]["containers"][0]["readinessProbe"]["tcpSocket"]["port"] == port
    return port, [pod["containers"][0]["image"] for pod in pods]


def installed_packages(instruction):
    """Names after each `apt-get install` of a RUN instruction."""
    names = []
    for command in instruction.split("&&"):
        words = shlex.split(command)
        if words[:2] == ["apt-get", "install"]:
            names += [word for word in words[2:] if not word.startswith("-")]
    return names


def check_gpu_image(text, images):
    """The image adds a program and libraries to the CPU image, which has the rest."""
    lines = instructions(text)
    assert {name for name, _ in lines} <= {"ADD", "ARG", "COPY", "ENV", "FROM", "RUN", "USER", "WORKDIR"}, lines
    assert ("ARG", "BASE=trireme") in lines
    assert [rest for name, rest in lines if name == "FROM"] == ["debian:12-slim AS build", "${BASE}"]
    assert set(images) == {"trireme:cuda"} and "-t trireme:cuda" in text
    last = next(i for i, line in enumerate(lines) if line == ("FROM", "${BASE}"))
    assert lines[-1] == ("USER", "trireme")
    build, final = ({package for name, rest in part if name == "RUN" for package in installed_packages(rest)}
                    for part in (lines[:last], lines[last:]))
    libraries = {"libcublas-13-0": "libcublas-dev-13-0", "libcudnn9-cuda-13": "libcudnn9-dev-cuda-13",
                 "libnccl2": "libnccl-dev"}
    for library, headers in libraries.items():
        assert library in final and headers in build, f"{library} and {headers}: {final}, {build}"
    assert any("--preset cuda" in rest for name, rest in lines[:last])
    for package in build | final:  # one CUDA version
        version = re.search(r"-(\d+)(?:-(\d+))?$", package)
        assert version is None or version.groups() in (("13", "0"), ("13", None)), package


def check_image(text, port, options):
    lines = instructions(text)
    assert {name for name, _ in lines} <= {"FROM", "COPY", "RUN", "USER", "WORKDIR"}, lines
    assert [name for name, _ in lines].count("FROM") == 2
    assert rf"Port {port}\n" in text and "sshd_config" in text
    packages = {package for name, rest in lines if name == "RUN" for package in installed_packages(rest)}
    needed = {}
    loaded = dict(re.findall(r"(\S+) => (/\S+)", subprocess.run(["ldd", options.trireme], capture_output=True,
                                                                text=True, check=True).stdout))
    dynamic = subprocess.run(["readelf", "-d", options.trireme], capture_output=True, text=True, check=True).stdout
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if re.match(r"lib(cuda|cublas|cudnn|nccl|nvidia)|ld-linux", library):
            continue  # the image is of a build without CUDA, and libc6 has the loader
        real = Path(loaded[library]).resolve()
        owner = subprocess.run(["dpkg", "-S", real], capture_output=True, text=True)
        if owner.returncode != 0:  # installed under the name of before the merge of /lib and /usr/lib
            owner = subprocess.run(["dpkg", "-S", str(real).removeprefix("/usr")], capture_output=True, text=True)
        assert owner.returncode == 0, f"no package has {real}"
        needed[owner.stdout.split(":")[0]] = library
    missing = {package: library for package, library in needed.items() if package not in packages | ESSENTIAL}
    assert not missing, f"the image lacks {missing}"
    unknown = packages - {line.split(":")[0] for line in subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package}\n"], capture_output=True, text=True, check=True).stdout.splitlines()}
    assert unknown <= {"openssh-server"}, f"no packages of this system: {unknown}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True)
    options = parser.parse_args()
    try:
        import yaml
    except ImportError:
        skip("no PyYAML (python3-yaml)")
    release = Path("/etc/os-release").read_text()
    if 'VERSION_ID="12"' not in release or "ID=debian" not in release:
        skip("the image's packages are Debian 12's, and this is another system")
    port, images = check_manifest(yaml.safe_load((FOLDER / "trireme.yaml").read_text()), options)
    assert set(images) == {"trireme"}
    check_image((FOLDER / "Dockerfile").read_text(), port, options)
    gpu_port, gpu_images = check_manifest(yaml.safe_load((FOLDER / "trireme_gpu.yaml").read_text()), options)
    assert gpu_port == port, "both images have the same sshd"
    check_gpu_image((FOLDER / "Dockerfile.cuda").read_text(), gpu_images)


if __name__ == "__main__":
    main()
