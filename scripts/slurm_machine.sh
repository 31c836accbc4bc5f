#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command on a machine with a Slurm of its own: a controller and some nodes, none of which
# outlives the command.
#
#   scripts/slurm_machine.sh [--nodes=2] [--cpus=N] [--binding=none|affinity] -- COMMAND...
#   scripts/slurm_machine.sh --check
#
#   --nodes    n0, n1, ...
#   --cpus     of each node, as Slurm counts them; default: this machine's cores. All nodes have the
#              same cores in fact.
#   --binding  Slurm's TaskPlugin. affinity binds tasks to cores, so that no node can have more cores
#              than there are
#   --check    says why it cannot be done here (exit 77), or nothing
#
#   scripts/slurm_machine.sh -- srun --nodes=2 hostname
#   scripts/slurm_machine.sh -- salloc --ntasks=2 bash
#
# Needs root and Debian's packages slurm-wlm and munge (other systems have them, too; only Debian 12
# was tried). COMMAND may be anything, with its arguments; it runs beside the nodes, on a host named
# "login", in the same folder, and its exit code is the script's. SLURM_CONF, SLURM_LOGS are set.
#
# A node is a slurmd with a host name, an address and process numbers of its own, so that programs
# take nodes for several hosts. Files are shared, also /tmp. All addresses are those of one network
# device, so Open MPI finds no way from one node to another. There is no other network, so any
# number of such machines can run at once. All processes are in one PID namespace and all files of
# Slurm in the memory of one mount namespace. So nothing is left, even when the script is killed.
# Ctrl-C is COMMAND's own business; at SIGTERM all ends at once.
set -euo pipefail

readonly skipped=77
# Exists wherever slurmctld was installed; what is in it is hidden, for the machine's own processes.
readonly folder=/var/lib/slurm
readonly start_limit_s=30

say() { printf 'slurm_machine.sh: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}

# Prints why there can be no such machine here; nothing: there can.
reason_against() {
  local missing=() pair
  if ((EUID != 0)); then
    echo "needs root, for namespaces and slurmd"
    return
  fi
  for pair in slurmctld:slurm-wlm slurmd:slurm-wlm srun:slurm-wlm munged:munge ip:iproute2 \
    unshare:util-linux; do
    if ! PATH=$PATH:/usr/sbin command -v "${pair%:*}" >/dev/null; then
      missing+=("${pair%:*} (package ${pair#*:})")
    fi
  done
  if ((${#missing[@]} > 0)); then
    printf 'not installed: %s' "${missing[0]}"
    printf ', %s' "${missing[@]:1}"
    echo
  elif ! unshare --mount --net --pid --uts --fork --mount-proc true 2>/dev/null; then
    echo "no namespaces here"
  fi
}

node_address() { echo "10.78.0.$(($1 + 1))"; }

write_configuration() {
  local node
  cat <<END
ClusterName=ddpbench
SlurmctldHost=login(10.78.0.254)
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/%n.pid
SlurmdLogFile=$folder/logs/%n
TmpFS=$folder/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/$binding
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
  for ((node = 0; node < nodes; node++)); do
    echo "NodeName=n$node NodeAddr=$(node_address "$node") Port=$((6820 + node)) CPUs=$cpus State=UNKNOWN"
  done
}

# Names and addresses that all know, in a network that nothing else is in.
make_network() {
  local node
  ip link set lo up
  {
    cat /etc/hosts
    echo "10.78.0.254 login"
    for ((node = 0; node < nodes; node++)); do echo "$(node_address "$node") n$node"; done
  } >"$folder/hosts"
  for ((node = 0; node < nodes; node++)); do
    ip address add "$(node_address "$node")/32" dev lo
  done
  ip address add 10.78.0.254/32 dev lo
  mount --bind "$folder/hosts" /etc/hosts
  hostname login
}

start_munge() {
  head --bytes=128 /dev/urandom >"$folder/munge.key"
  chmod 0400 "$folder/munge.key"
  munged --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
    --pid-file="$folder/munged.pid" --seed-file="$folder/munge.seed" \
    --log-file="$folder/logs/munged" 2>"$folder/logs/munged.start" || failed munged
}

# bash stays as the first process of the node's numbers: it reaps what jobs leave.
start_node() {
  mkdir -p "$folder/$1"
  # shellcheck disable=SC2016
  unshare --mount --pid --uts --fork --kill-child --mount-proc bash -c \
    'hostname "$1"; slurmd -D >"$2/logs/$1.start" 2>&1; exit $?' bash "$1" "$folder" </dev/null &
}

failed() {
  say "$1 did not start; the last lines of all logs:"
  tail --lines=5 "$folder"/logs/* >&2
  exit 1
}

nodes_are_idle() {
  [[ $(sinfo --noheader --Node --format=%T 2>/dev/null | sort | uniq --count | xargs) == "$nodes idle" ]]
}

await_nodes() {
  local limit=$((SECONDS + start_limit_s))
  until nodes_are_idle; do
    ((SECONDS < limit)) || failed "Slurm"
    sleep 0.1
  done
}

# The first process of the machine: as it ends, the kernel ends all others.
inside() {
  local node
  # bash awaits COMMAND, which gets the signal of a terminal, too.
  trap : INT
  mount -t tmpfs -o mode=0755 slurm "$folder"
  mkdir "$folder/logs" "$folder/state"
  make_network
  write_configuration >"$folder/slurm.conf"
  # An allocation that the script may run in is another Slurm's.
  unset "${!SLURM_@}" "${!SRUN_@}" "${!SBATCH_@}" "${!SALLOC_@}"
  export SLURM_CONF=$folder/slurm.conf SLURM_LOGS=$folder/logs
  start_munge
  slurmctld -D >"$folder/logs/slurmctld" 2>&1 </dev/null &
  for ((node = 0; node < nodes; node++)); do start_node "n$node"; done
  await_nodes
  local status=0
  "$@" || status=$?
  exit $status
}

main() {
  local why
  nodes=2
  cpus=$(nproc)
  binding=none
  while (($# > 0)); do
    case $1 in
      --nodes=[1-9] | --nodes=[1-9][0-9]) nodes=${1#*=} ;;
      --cpus=[1-9] | --cpus=[1-9][0-9]) cpus=${1#*=} ;;
      --binding=none | --binding=affinity) binding=${1#*=} ;;
      --check)
        why=$(reason_against)
        [[ -n $why ]] || exit 0
        echo "$why"
        exit $skipped
        ;;
      --)
        shift
        break
        ;;
      *)
        say "unknown argument '$1' (known: --nodes=N, --cpus=N, --binding=none|affinity, --check, -- COMMAND...)"
        exit 2
        ;;
    esac
    shift
  done
  if (($# == 0)); then
    say "no command; give it behind --"
    exit 2
  fi
  why=$(reason_against)
  [[ -z $why ]] || die "$why"
  export nodes cpus binding
  # bash has background jobs ignore a terminal's signals; COMMAND is to have them.
  env --default-signal=INT,QUIT setpriv --pdeathsig KILL \
    unshare --mount --net --pid --uts --fork --kill-child --mount-proc \
    "${BASH_SOURCE[0]}" --inside "$@" <&0 &
  await_machine $!
}

# Signals interrupt `wait`. Exits with COMMAND's code.
await_machine() {
  local status=0 ended=""
  trap : INT
  trap 'kill -KILL $1; ended=$((128 + 15))' TERM
  trap 'kill -KILL $1; ended=$((128 + 1))' HUP
  while kill -0 "$1" 2>/dev/null; do
    status=0
    { wait "$1"; } 2>/dev/null || status=$? # without a word about the signal
  done
  exit "${ended:-$status}"
}

export PATH=$PATH:/usr/sbin:/sbin
if [[ ${1:-} == --inside ]]; then
  shift
  inside "$@"
else
  main "$@"
fi
