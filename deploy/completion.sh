# shellcheck shell=bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Completion of ddpbench's command line in bash. It reads what `ddpbench COMMAND --help` prints, so
# it offers what the program takes.

# What an option's value may be, by its hint: "auto|cpu,..." gives auto and cpu. Words in capitals
# stand for something else.
_ddpbench_values() {
  local word
  for word in ${1//[|,]/ }; do
    if [[ $word != *[A-Z.]* ]]; then printf '%s ' "$word"; fi
  done
}

_ddpbench() {
  local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD - 1]}
  local option='' head='' hint='' help words=() command=()
  COMPREPLY=()
  if ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[1]} != -* ]]; then command=("${COMP_WORDS[1]}"); fi
  if ((COMP_CWORD > 2)) && [[ ${command[*]} == data ]]; then command+=("${COMP_WORDS[2]}"); fi
  local asked=("${command[@]}" --help)
  # The help of tune leaves out the options of a run, most of which it takes.
  if [[ ${command[*]} =~ ^(help|tune)?$ ]]; then asked=(help options); fi
  help=$("$program" "${asked[@]}" 2>/dev/null) || return 0
  # Where '=' parts words, "--kind=sc" is three of them.
  if [[ $current == = ]]; then
    option=$last current=''
  elif [[ $last == = ]] && ((COMP_CWORD >= 2)); then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  elif [[ $current == --*=* ]]; then
    option=${current%%=*} head=$option= current=${current#*=}
  elif [[ $last == -* ]]; then
    option=$last
  fi
  # A line is "  -o, --output=FILE   ...". Without a hint it is a switch, which takes no word.
  local line name own options=()
  while IFS= read -r line; do
    if [[ $line != '  -'* ]]; then continue; fi
    line=${line//, /,} line=${line#  } own=''
    line=${line%% *}
    if [[ $line == *=* ]]; then own=${line#*=} line=${line%%=*}; fi
    for name in ${line//,/ }; do
      if [[ $name == "$option" ]]; then hint=$own; fi
      if [[ $name == --* ]]; then options+=("$name${own:+=}"); fi
    done
  done <<<"$help"
  if [[ -n $hint ]]; then
    if [[ $hint =~ ^(FILE|PATH|DIR|REPORT|BASE) || $option == --config ]]; then
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -P "$head" -f -- "$current")
      return
    fi
    if [[ $hint == *,... && $current == *,* ]]; then
      head+=${current%,*},
      current=${current##*,}
    fi
    mapfile -t COMPREPLY < <(compgen -P "$head" -W "$(_ddpbench_values "$hint")" -- "$current")
    return
  fi
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "${options[*]}" -- "$current")
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
    return
  fi
  # Commands, the names that a command takes, or files.
  if ((COMP_CWORD == 1)) || [[ ${command[*]} == data ]]; then
    mapfile -t words < <(sed -nE "s/^  ddpbench ${command[*]:+${command[*]} }([a-z]+).*$/\1/p" \
      <<<"$help" | uniq)
  elif [[ ${command[*]} == help ]]; then
    mapfile -t words < <(printf '%s\n' options hosts config exit-codes
      sed -nE 's/^  ddpbench ([a-z]+).*$/\1/p' <<<"$help" | uniq)
  elif [[ $help =~ [a-z0-9]+(\|[a-z0-9-]+)+ && ${command[*]} == "data fetch" ]]; then
    mapfile -t words < <(tr '|' '\n' <<<"${BASH_REMATCH[0]}")
  elif [[ $help == *$'\nUsage: ddpbench '* ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    return
  fi
  if [[ ${#words[@]} -gt 0 ]]; then
    mapfile -t COMPREPLY < <(compgen -W "${words[*]}" -- "$current")
  fi
}
complete -F _ddpbench ddpbench
