#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Proves run.sh and test.sh on a bare Debian: makes a minimal tree with debootstrap, clones this
# checkout's HEAD into it (at a path with a space), and runs both commands there with chroot. Then a
# second user runs what is built, and the Debian packages are made, installed in another bare tree,
# and used there.
#
#   scripts/fresh_machine.sh [--release=12|13] [--keep] [--packages-only | --without-tests]
#
#   --release        of Debian; default 12
#   --keep           keep the trees and print their paths
#   --packages-only  stop after the packages are installed
#   --without-tests  stop before test.sh
#
# Needs root, debootstrap and a Debian mirror (the one that apt on this machine uses). Takes about a
# minute to make the tree, then as long as packages, build and tests take. Fails when a step fails,
# when a start with nothing to build takes over a second, or the run without arguments over two
# minutes.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
release=12
checkout="/srv/fresh clone/ddpbench"
start_limit_ms=1000
comparison_limit_ms=120000

say() { printf 'fresh_machine.sh: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}
now_ms() { date +%s%3N; }

# timed LIMIT_MS NAME COMMAND...: runs the command, prints its time, and fails if that is over the
# limit (0: none). A command that fails ends the script, and the exit trap names the step.
timed() {
  local limit=$1 begin took
  name=$2
  shift 2
  begin=$(now_ms)
  "$@"
  took=$(($(now_ms) - begin))
  say "$(printf '%7d.%03d s  %s' $((took / 1000)) $((took % 1000)) "$name")"
  if ((limit > 0 && took > limit)); then die "$name took more than $limit ms"; fi
}

# Prints "URI SUITE COMPONENT" of each Debian archive that this machine's apt uses, with `suite` in
# place of this machine's own release.
archives() {
  # apt expands the fields, not the shell.
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    sed -n -E "s#^([^ ]*/debian(-security)?/?) (bookworm|trixie)#\\1 ${suite}#p" | sort -u
}

# Makes apt in the tree fetch from the same archives in the same way (proxy, date checks).
configure_apt() {
  local tree=$1
  archives | sed 's/^/deb /' >"$tree/etc/apt/sources.list"
  apt-config dump | grep -E '^Acquire::(Check-|Retries|https?::)' \
    >"$tree/etc/apt/apt.conf.d/00fresh-machine" || true
  cp -L /etc/resolv.conf /etc/hosts "$tree/etc/"
}

make_tree() {
  local tree=$1 mirror
  mirror=$(archives | awk -v suite="$suite" '$2 == suite { print $1; exit }')
  [[ -n $mirror ]] || die "apt here knows no Debian $suite archive (apt-get update first?)"
  debootstrap --variant=minbase "$suite" "$tree" "$mirror" >"$tree.log" 2>&1 ||
    die "debootstrap failed: $(tail -n 3 "$tree.log")"
  configure_apt "$tree"
}

# Runs "$2..." in the tree with its own mounts and process numbers: no mount and no process is left
# behind, however this script ends.
in_tree() {
  local tree=$1
  shift
  # shellcheck disable=SC2016
  unshare --mount --propagation private --pid --fork --kill-child bash -c '
    set -e
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    mount --rbind /sys "$1/sys"
    tree=$1
    shift
    exec chroot "$tree" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin CI=true "$@"
  ' bash "$tree" "$@" </dev/null
}

keep=no
packages_only=no
without_tests=no
for argument in "$@"; do
  case $argument in
    --release=12 | --release=13) release=${argument#*=} ;;
    --keep) keep=yes ;;
    --packages-only) packages_only=yes ;;
    --without-tests) without_tests=yes ;;
    *)
      say "unknown argument '$argument' (known: --release=12|13, --keep, --packages-only, --without-tests)"
      exit 2
      ;;
  esac
done
case $release in
  12) suite=bookworm ;;
  13) suite=trixie ;;
esac
((EUID == 0)) || die "chroot and mount need root"
command -v debootstrap >/dev/null || die "debootstrap is not here: apt-get install debootstrap"
if [[ -n $(git -C "$root" status --porcelain) ]]; then
  say "the checkout has uncommitted changes; only HEAD is proved"
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/ddpbench-fresh.XXXXXX")
tree="$work/tree"
bare="$work/bare"
name="start"
cleanup() {
  local status=$?
  if ((status != 0)); then say "FAILED (exit $status) in: $name"; fi
  if [[ $keep == yes ]]; then
    say "kept: $tree and $bare"
  else
    rm -rf --one-file-system "$work"
  fi
}
trap cleanup EXIT

mkdir "$tree"
timed 0 "debootstrap minbase $suite" make_tree "$tree"
cp -a "$tree" "$bare"
mkdir -p "$tree$checkout" "$tree/srv/elsewhere"
git clone -q --no-hardlinks "$root" "$tree$checkout"

# What a user of the package has: the program, its manual page and completions, a run without a
# source tree. apt fetches what the package depends on.
use_package() {
  # The tree's shell expands, not this one.
  # shellcheck disable=SC2016
  in_tree "$bare" bash -c 'set -e
    apt-get -q update >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends /srv/ddpbench.deb >/dev/null
    cd /tmp
    ddpbench info | grep -F "(installed)"
    ddpbench --config=smoke --json=smoke.json
    ddpbench chart smoke.json -o smoke.svg
    test -s smoke.svg
    gzip --test /usr/share/man/man1/ddpbench.1.gz
    bash -c "source /usr/share/bash-completion/completions/ddpbench
      COMP_WORDS=(ddpbench show --form) COMP_CWORD=2
      _ddpbench
      [[ \${COMPREPLY[*]} == --format= ]]"
    dpkg --verify ddpbench
    apt-get -q install -y --no-install-recommends /srv/ddpbench-gloo.deb /srv/ddpbench-mpi.deb \
      openmpi-bin >/dev/null
    ddpbench --config=smoke --strategy=ddp --backend=gloo --json=gloo.json
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    ddpbench --config=smoke --strategy=ddp --backend=mpi --launcher=mpirun --json=mpi.json
    apt-get -q purge -y ddpbench ddpbench-gloo ddpbench-mpi >/dev/null
    test ! -e /usr/share/ddpbench -a ! -e /usr/lib/ddpbench'
}

# The clone's origin is this checkout, which is not in the tree. No step may need it.
inside() { in_tree "$tree" env --chdir=/srv/elsewhere "$@"; }
if [[ $packages_only == yes ]]; then
  timed 0 "packages of run.sh" inside "$checkout/scripts/install_packages.sh" run
  timed $start_limit_ms "the same again" inside "$checkout/scripts/install_packages.sh" run
  timed 0 "packages of test.sh and .ci/run" inside "$checkout/scripts/install_packages.sh" run test engines check
  exit 0
fi

timed 0 "run.sh: packages, build, smoke configuration" inside "$checkout/run.sh" --config=smoke \
  --json=smoke.json
timed $start_limit_ms "run.sh: start with nothing to build" inside "$checkout/run.sh" --version
timed $comparison_limit_ms "run.sh without arguments" inside "$checkout/run.sh"
[[ -f $tree/srv/elsewhere/smoke.json && -n $(find "$tree/srv/elsewhere" -name 'ddpbench-*.json') ]] ||
  die "run.sh left no report in the working directory"
# A second user, who may only read.
timed $start_limit_ms "run.sh of a second user" inside setpriv --reuid=65534 --regid=65534 \
  --clear-groups "$checkout/run.sh" --version
timed 0 "packages of Gloo and MPI" inside "$checkout/scripts/install_packages.sh" engines
timed 0 "the Debian packages" inside "$checkout/scripts/package.sh"
for package in ddpbench ddpbench-gloo ddpbench-mpi; do
  cp "$tree$checkout/build/cpu-release/packages/$package"_*.deb "$bare/srv/$package.deb"
done
timed 0 "the packages in a bare tree" use_package
if [[ $without_tests == yes ]]; then exit 0; fi
timed 0 "test.sh: packages, build, tests" inside "$checkout/test.sh"
say "both commands and the package work on a bare Debian $release ($suite)"
