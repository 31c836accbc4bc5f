#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# A part of scripts/gpu_suite.sh, which sources it. Finds what the machine has (GPUs, toolkit,
# CMake, Python packages, compute-sanitizer) and derives CMake's options. Uses the functions `say`
# and `die` and the variables of options of that script.
# shellcheck disable=SC2154

# Sets `gpus`, one line for each, and `architectures` unless it is given.
find_gpus() {
  local smi
  smi=$(command -v nvidia-smi || true)
  # Containers have the driver's tools there, but not always in PATH.
  if [[ -z $smi && -x /usr/local/nvidia/bin/nvidia-smi ]]; then smi=/usr/local/nvidia/bin/nvidia-smi; fi
  gpus=$([[ -z $smi ]] || "$smi" --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null || true)
  # Some machines have the device but not the tool.
  if [[ -z $gpus && -e /dev/nvidia0 ]]; then gpus="unknown (no nvidia-smi)"; fi
  [[ -n $gpus || $build_only == yes ]] ||
    die 3 "no GPU is here (nvidia-smi finds none); --build-only builds and tests what needs none"
  if [[ -z $architectures && -n $gpus ]]; then
    architectures=$(sed -n 's/.*, *\([0-9]*\)\.\([0-9]*\)$/\1\2/p' <<<"$gpus" | sort -u | paste -sd';')
    # All architectures would take several times as long. nvcc can ask the driver, too.
    if [[ -z $architectures ]]; then architectures=native; fi
  fi
}

# Whether program $1 is a CMake that is new enough for this project.
is_new_cmake() {
  local version
  version=$("$1" --version 2>/dev/null | sed -n '1s/^cmake version //p')
  [[ -n $version && $(printf '%s\n' 3.25 "$version" | sort -V | head -n 1) == 3.25 ]]
}

# Sets `nvcc`. Puts the folder of the Python interpreter, where `pip install cmake ninja` installs,
# at the end of PATH; or at its beginning, if the system's CMake is missing or too old.
find_toolkit() {
  local beside
  nvcc=${CUDACXX:-$(command -v nvcc || true)}
  if [[ -z $nvcc && -x /usr/local/cuda/bin/nvcc ]]; then nvcc=/usr/local/cuda/bin/nvcc; fi
  [[ -n $nvcc ]] || die 3 "no CUDA toolkit is here (nvcc is not in PATH nor in /usr/local/cuda/bin)"
  beside=$("$python" -c 'import os, sys; print(os.path.dirname(sys.executable))' 2>/dev/null || true)
  if is_new_cmake cmake; then
    PATH=$PATH${beside:+:$beside}
  elif [[ -n $beside ]] && is_new_cmake "$beside/cmake"; then
    PATH=$beside:$PATH
  else
    die 3 "there is no cmake of version 3.25 or later: pip install cmake, or install it"
  fi
}

# Prints the folders of cuDNN, NCCL and the toolkit's libraries in the interpreter's packages,
# separated by semicolons. Packages for CUDA 13 share the folder cu13.
python_roots() {
  "$python" - <<'PYTHON' 2>/dev/null || true
import pathlib, sys
found = []
for name in ("cudnn", "nccl", "cu13", "cublas", "nvtx"):
    for place in sys.path:
        folder = pathlib.Path(place or ".") / "nvidia" / name
        if (folder / "include").is_dir():
            found.append(str(folder))
            break
print(";".join(found))
PYTHON
}

# Sets `sanitizer`; empty if there is none.
find_sanitizer() {
  sanitizer=$(command -v compute-sanitizer || true)
  [[ -z $sanitizer ]] || return 0
  for sanitizer in "$(dirname "$nvcc")/compute-sanitizer" /usr/local/cuda/bin/compute-sanitizer; do
    [[ -x $sanitizer ]] && return
  done
  sanitizer=
}

# Unpacks archive $1 into the new folder $2. Bare machines have no xz, but Python contains it.
unpack() {
  rm -rf "$2" && mkdir -p "$2"
  tar --extract --file "$1" --directory "$2" 2>/dev/null && return
  say "tar cannot unpack $1 (is xz here?); trying $python"
  "$python" - "$1" "$2" <<'PYTHON' || die 3 "$1 cannot be unpacked"
import sys, tarfile
archive = tarfile.open(sys.argv[1])
archive.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)  # links, as tar has them
archive.extractall(sys.argv[2])
PYTHON
}

# Sets `configure`, the options of cmake.
plan_configure() {
  configure=(-S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DDDPBENCH_ENABLE_CUDA=ON
    -DDDPBENCH_BUILD_MICRO=AUTO "-DCMAKE_CUDA_COMPILER=$nvcc" "-DDDPBENCH_COMMIT=$commit"
    "-DDDPBENCH_CUDA_ARCHITECTURES=$architectures" "-DDDPBENCH_CUDA_ROOTS=$(python_roots)")
  if command -v ninja >/dev/null; then configure+=(-G Ninja); fi
  [[ -n $prefix ]] || return 0
  if [[ -f $prefix ]]; then
    unpack "$prefix" "$build/prefix"
    prefix="$build/prefix"
  fi
  prefix=$(cd "$prefix" && pwd)
  local folder flags='' includes=''
  for folder in "$prefix"/usr/lib/*-linux-gnu "$prefix"/lib/*-linux-gnu; do
    [[ -d $folder ]] && flags+=" -Wl,-rpath,$folder -Wl,-rpath-link,$folder"
  done
  # Debian has headers of one architecture there. A compiler looks there only below /usr.
  for folder in "$prefix"/usr/include/*-linux-gnu; do
    [[ -d $folder ]] && includes+=" -isystem $folder"
  done
  # An RPATH also serves the libraries of the prefix to find each other. LD_LIBRARY_PATH would put
  # them before the libraries of the compiler and of Python.
  flags+=" -Wl,--disable-new-dtags"
  configure+=("-DCMAKE_CXX_FLAGS=$includes" "-DCMAKE_CUDA_FLAGS=$includes")
  configure+=("-DCMAKE_PREFIX_PATH=$prefix/usr" "-DCMAKE_EXE_LINKER_FLAGS=$flags"
    "-DCMAKE_MODULE_LINKER_FLAGS=$flags" "-DDDPBENCH_VALIJSON_INCLUDE=$prefix/usr/include")
}
