# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""What this machine is, as reports show it. A value that is not known is null beside a reason."""
import glob
import os
import re
import subprocess

from .errors import UnavailableError

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
UNKNOWN = "not reported by this system"
FEATURES = ("sse4_2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl",
            "avx512_vnni", "avx512_bf16", "amx_bf16", "asimd", "sve", "bf16")
VARIABLES = ("OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "OPENBLAS_", "NCCL_", "CUDA_",
             "GLOO_", "TORCH_", "PYTORCH_")


def text_of(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def put(target, key, value, reason):
    """Sets `value`, or null and the reason where there is none."""
    target[key] = value
    if value is None:
        target[key + "_reason"] = reason


def first_match(pattern, text):
    found = re.search(pattern, text, re.MULTILINE)
    return found.group(1).strip() if found else None


def processors():
    return sorted(os.sched_getaffinity(0))


def cores():
    """Returns one processor of every core that this process may use."""
    seen, chosen = set(), []
    for processor in processors():
        place = f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list"
        siblings = text_of(place).strip() or str(processor)
        if siblings not in seen:
            seen.add(siblings)
            chosen.append(processor)
    return chosen


def cache_bytes(level):
    for index in glob.glob("/sys/devices/system/cpu/cpu0/cache/index*"):
        size = re.fullmatch(r"(\d+)([KM]?)", text_of(index + "/size").strip())
        if text_of(index + "/level").strip() == str(level) and size:
            return int(size.group(1)) * {"": 1, "K": 1024, "M": 1024**2}[size.group(2)]
    return None


def cpu_model():
    return first_match(r"^model name\s*:(.*)$", text_of("/proc/cpuinfo"))


def cpu():
    info = {}
    put(info, "model", cpu_model(), UNKNOWN)
    put(info, "cores", len(cores()) or None, UNKNOWN)
    put(info, "processors", len(processors()) or None, UNKNOWN)
    put(info, "l2_bytes", cache_bytes(2), UNKNOWN)
    put(info, "l3_bytes", cache_bytes(3), UNKNOWN)
    kibibytes = first_match(r"^MemTotal:\s*(\d+) kB", text_of("/proc/meminfo"))
    put(info, "memory_bytes", int(kibibytes) * 1024 if kibibytes else None, UNKNOWN)
    flags = (first_match(r"^(?:flags|Features)\s*:(.*)$", text_of("/proc/cpuinfo")) or "").split()
    info["features"] = [name for name in FEATURES if name in flags]
    return info


def gpus(devices):
    driver = first_match(r"Kernel Module.*?\s(\d+\.\d[\d.]*)\s",
                         text_of("/proc/driver/nvidia/version"))
    rows = []
    for device in devices:
        row = {"name": device["name"]}
        put(row, "driver", driver, UNKNOWN)
        row["memory_bytes"] = device["memory_bytes"]
        rows.append(row)
    return rows


def environment(found):
    """`found`: the result of rank.probe()."""
    system = os.uname()
    info = {"hosts": [system.nodename]}
    put(info, "operating_system",
        first_match(r'^PRETTY_NAME="?([^"\n]*)', text_of("/etc/os-release")), UNKNOWN)
    info["kernel"] = f"{system.sysname} {system.release} {system.machine}"
    info["cpu"] = cpu()
    info["gpus"] = gpus(found["devices"])
    info["libraries"] = found["libraries"]
    info["variables"] = {name: value for name, value in sorted(os.environ.items())
                         if name.startswith(VARIABLES) or name in ("LD_PRELOAD", "LD_LIBRARY_PATH")
                         or name.startswith("DDPBENCH_") and "SECRET" not in name}
    return info


def git(*arguments):
    try:
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True,
                              check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def generator():
    version = first_match(r"^project\(ddpbench VERSION ([\d.]+)",
                          text_of(os.path.join(ROOT, "CMakeLists.txt")))
    if version is None:
        raise UnavailableError(f"{ROOT} is no source tree of ddpbench, of which this script is a part")
    commit, changes = git("rev-parse", "HEAD"), git("status", "--porcelain")
    info = {"name": "ddpbench-pytorch-peer", "version": version}
    put(info, "git_commit", commit, "not in a git checkout, or git is not here")
    put(info, "git_dirty", bool(changes) if changes is not None else None,
        "not in a git checkout, or git is not here")
    return info
