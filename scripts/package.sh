#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds Debian packages of a release: ddpbench, with the CUDA module (where its toolkit is)
# ddpbench-cuda, and where Gloo and MPI are ddpbench-gloo and ddpbench-mpi. Beside them it makes
# ddpbench-VERSION-linux-MACHINE.tar.gz for systems without these packages, and its .sha256: the
# program with its modules, and the libraries that few systems have. Prints their paths, one on each
# line; all else goes to stderr.
#
#   scripts/package.sh              # sudo apt install ./build/cpu-release/packages/ddpbench_*.deb
#   scripts/package.sh --archive=BUILD DIRECTORY    # only the archive, of what is built in BUILD
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# Libraries that stay the system's: what others in the process need as new as the system has it, and
# what must get its security fixes.
readonly of_the_system='/(ld-linux.*|lib(c|m|stdc\+\+|gcc_s|z|udev|crypto))\.so'

# make_archive BUILD DIRECTORY: prints its path.
make_archive() {
  local version name work library package
  version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$1/CMakeCache.txt")
  name=ddpbench-$version-linux-$(uname -m)
  work=$(mktemp -d)
  cmake --install "$1" --strip --prefix "$work/$name" >&2
  mkdir -p "$work/$name/lib/ddpbench" "$work/$name/share/doc/ddpbench/libraries"
  # Linked to what the system has, as none is in the folder yet.
  ldd "$work/$name/bin/ddpbench" | awk '$3 ~ /^\// { print $3 }' | { grep -Ev "$of_the_system" || true; } |
    while read -r library; do
      cp -L "$library" "$work/$name/lib/ddpbench/"
      package=$(dpkg-query --search "$(readlink -f "$library")" 2>/dev/null | cut -d: -f1) || continue
      cp -L "/usr/share/doc/$package/copyright" "$work/$name/share/doc/ddpbench/libraries/$package"
    done
  mkdir -p "$2"
  tar --sort=name --owner=0 --group=0 --numeric-owner -czf "$2/$name.tar.gz" -C "$work" "$name"
  rm -rf "$work"
  (cd "$2" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
  printf '%s\n' "$2/$name.tar.gz"
}

if [[ ${1-} == --archive=* ]]; then
  make_archive "${1#*=}" "${2:?the folder for the archive}"
  exit
fi
"$root/scripts/install_packages.sh" run deb
preset=cpu-release
if [[ -z $("$root/scripts/missing_for_cuda.sh") ]]; then preset=cuda-release; fi
"$root/scripts/build_preset.sh" "$preset" programs
packages="$root/build/$preset/packages"
rm -rf "$packages"
cpack --config "$root/build/$preset/CPackConfig.cmake" >&2
ls "$packages"/*.deb
make_archive "$root/build/$preset" "$packages"
