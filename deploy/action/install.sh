#!/usr/bin/env bash
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs a release of ddpbench in DIRECTORY, unless it is there: downloads the archive that
# scripts/package.sh makes, compares its SHA-256, and unpacks it. Needs curl.
#
#   deploy/action/install.sh VERSION URL DIRECTORY [SHA256]
#
#   URL     the folder of the archive: https://... or file://...
#   SHA256  what the archive must have; when not given, that of the file beside it
#
# In GitHub Actions the program is in the PATH of the steps that follow.
set -euo pipefail

version=$1 url=${2%/} directory=$3 wanted=${4-}
archive=ddpbench-$version-linux-$(uname -m).tar.gz
fail() {
  echo "install.sh: $1" >&2
  exit 1
}

if [[ ! -x $directory/bin/ddpbench ]]; then
  mkdir -p "$(dirname "$directory")"
  work=$(mktemp -d -p "$(dirname "$directory")")
  trap 'rm -rf "$work"' EXIT
  download() {
    curl --fail --silent --show-error --location --retry 3 -o "$work/$1" "$url/$1" ||
      fail "$url/$1 cannot be downloaded: check the version"
  }
  download "$archive"
  if [[ -z $wanted ]]; then
    download "$archive.sha256"
    wanted=$(cut -d ' ' -f 1 "$work/$archive.sha256")
  fi
  found=$(sha256sum "$work/$archive" | cut -d ' ' -f 1)
  [[ $found == "$wanted" ]] ||
    fail "$url/$archive has the SHA-256 $found, not $wanted: nothing was installed"
  tar -xzf "$work/$archive" -C "$work"
  rm -rf "$directory"
  mv -T "$work/${archive%.tar.gz}" "$directory"
fi
if [[ -n ${GITHUB_PATH-} ]]; then echo "$directory/bin" >>"$GITHUB_PATH"; fi
"$directory/bin/ddpbench" version
