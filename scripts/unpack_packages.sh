#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Downloads the Debian packages that a build of ddpbench needs (group `run` of packages.txt, and
# GoogleTest, valijson and Google Benchmark of `test`) and unpacks them into a folder. It installs
# nothing and needs no rights. This is for a machine with a GPU on which nothing can be installed:
# take the folder there, or the archive, which is a fifth of its size, and pass it to
# scripts/gpu_suite.sh --prefix.
#
#   scripts/unpack_packages.sh DIR          # DIR must be new or empty
#   scripts/unpack_packages.sh FILE.tar.xz  # FILE.tar.xz must be new
#   scripts/unpack_packages.sh --check      # checks that it would be enough; leaves nothing behind
#
# Leaves out what every machine with a compiler has (the compiler, git, python, the C and C++
# libraries) and what no build reads (documentation, static libraries beside shared ones). In the
# end it checks that CMake finds every dependency in the folder alone. Exit: 0 done; 1 the folder
# lacks something; 2 wrong usage; 3 a package is not available (no Debian, no network, no package
# lists).
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
list="$root/scripts/packages.txt"

say() { printf 'unpack_packages.sh: %s\n' "$*" >&2; }

# Packages of packages.txt that are tools of the machine and no part of the build.
left_out=(g++ cmake ninja-build git ca-certificates librsvg2-bin chromium python3 help2man)
# Libraries of any Debian system with a compiler. Taking the C library along would be a mistake, as
# it belongs to the kernel and the loader of the machine.
of_the_system='^(libc6|libc6-dev|libc-.*|libgcc-s1|gcc-.*-base|libstdc\+\+.*|libgomp1|libcrypt.*|libpam.*|libselinux1|libsystemd0|libudev1|libtinfo6|libdb5\.3)$'

wanted() {
  local group package rest
  while read -r group package rest; do
    [[ $group == run || $group == test ]] || continue
    [[ " ${left_out[*]} " == *" $package "* ]] || printf '%s\n' "$package"
  done <"$list"
}

# Prints the direct dependencies of the packages in "$@", one on each line: only real packages, and
# the first of alternatives.
depends_of() {
  apt-cache depends --important "$@" | sed -n 's/^  Depends: \([a-z0-9][^<>: ]*\)$/\1/p' | sort -u
}

# Prints the packages in "$@", the shared libraries that they need, and OpenCL's headers, which are
# separate packages. Other development packages are left out: valijson names all the JSON libraries
# that it could work with.
with_libraries() {
  local known=("$@") queue=() package
  # libboost-dev has nothing but the package of its version.
  mapfile -t queue < <(depends_of "$@" | awk '!/-dev$/ || /^libboost/')
  while ((${#queue[@]} > 0)); do
    package=${queue[0]}
    queue=("${queue[@]:1}")
    [[ $package == lib* || $package == zlib1g || $package == ocl-icd-* ||
      $package == opencl-* ]] || continue
    [[ $package =~ $of_the_system || " ${known[*]} " == *" $package "* ]] && continue
    known+=("$package")
    while read -r package; do queue+=("$package"); done < <(depends_of "$package" | grep -v -e '-dev$')
  done
  printf '%s\n' "${known[@]}"
}

# Prints, as NAME=PATH, what CMake found outside of the folder and of the compiler.
found_elsewhere() {
  sed -n 's/^\(.*\(_DIR\|_INCLUDE[A-Z_]*\|_LIBRAR[A-Z_]*\)\):[A-Z]*=\(\/.*\)$/\1=\3/p' \
    "$1/CMakeCache.txt" | grep -v -e '^CMAKE_' -e '^OpenMP_' -e "=$prefix/" -e "=$work/" || true
}

# Whether a build finds all that it needs in the folder alone, without this machine's packages.
check_prefix() {
  local project="$work/check" elsewhere program
  for program in cmake ninja; do
    if ! command -v "$program" >/dev/null; then
      say "not checked: there is no $program here"
      return
    fi
  done
  mkdir "$project"
  cat >"$project/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(check LANGUAGES C CXX)
set(DDPBENCH_BUILD_TESTS ON)
set(DDPBENCH_BUILD_MICRO ON)
include("$root/cmake/Dependencies.cmake")
CMAKE
  # pkg-config's files name the paths of installed packages.
  if ! cmake -G Ninja -S "$project" -B "$project/build" "-DCMAKE_PREFIX_PATH=$prefix/usr" \
    "-DCMAKE_IGNORE_PREFIX_PATH=/usr;/usr/local;/" -DPKG_CONFIG_EXECUTABLE=/bin/false \
    >"$work/log" 2>&1; then
    grep -A 4 -e 'CMake Error' -e 'Could NOT find' "$work/log" >&2
    say "the packages are not enough for a build"
    exit 1
  fi
  elsewhere=$(found_elsewhere "$project/build")
  if [[ -n $elsewhere ]]; then
    printf '%s\n' "$elsewhere" >&2
    say "CMake found these outside of the packages"
    exit 1
  fi
  say "checked: a build finds all that it needs"
}

if (($# != 1)) || [[ $1 == -* && $1 != --check ]]; then
  say "usage: unpack_packages.sh DIR | FILE.tar.xz | --check"
  exit 2
fi
archive=
if [[ $1 == *.tar.xz ]]; then archive=$1; fi
if [[ -n $archive && -e $archive ]] ||
  [[ -z $archive && -e $1 && ! (-d $1 && -z $(ls -A "$1")) ]]; then
  say "$1 exists"
  exit 2
fi
for tool in apt-get apt-cache dpkg-deb; do
  if ! command -v "$tool" >/dev/null; then
    say "there is no $tool: this runs on Debian and its like"
    exit 3
  fi
done

work=$(mktemp -d "${TMPDIR:-/tmp}/ddpbench-packages.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
prefix=$1
if [[ -n $archive || $1 == --check ]]; then prefix="$work/prefix"; fi
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)

mapfile -t packages < <(wanted)
mapfile -t packages < <(with_libraries "${packages[@]}")
say "downloading ${#packages[@]} packages"
if ! (cd "$work" && apt-get -q -o Acquire::http::Timeout=20 download "${packages[@]}") >"$work/log" 2>&1; then
  tail -n 5 "$work/log" >&2
  say "a package cannot be had; fetch the package lists (apt-get update) and try again"
  exit 3
fi
for package in "$work"/*.deb; do
  dpkg-deb --extract "$package" "$prefix"
done

rm -rf "${prefix:?}"/usr/share/{doc,man,info,locale,lintian,bug,doc-base,gtk-doc} "${prefix:?}"/etc
# GoogleTest has only static libraries; the CMake files of fmt and Google Benchmark need theirs.
find "$prefix" -name '*.a' ! -name 'libgtest*' ! -name 'libgmock*' ! -name 'libfmt*' \
  ! -name 'libbenchmark*' -delete
# Links out of the folder would find this machine's files here, and none on another machine.
while IFS= read -r -d '' link; do
  target=$(readlink "$link")
  if [[ $target == /* && -e $prefix$target ]]; then
    ln -sfr "$prefix$target" "$link"
  fi
done < <(find "$prefix" -type l -print0)
check_prefix
if [[ $1 == --check ]]; then exit 0; fi
if [[ -n $archive ]]; then
  tar --create --xz --owner=0 --group=0 --file "$archive" --directory "$prefix" .
fi
say "$1: $(du -sm "$1" | cut -f1) MiB"
