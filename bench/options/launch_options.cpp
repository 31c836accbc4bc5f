// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/handling_options.h"

namespace ddpbench::bench {

Definitions launch_options() {
  const std::string group = "Hosts and launchers";
  return {
      {.name = "hosts",
       .scope = kNotOfTune,
       .group = group,
       .hint = "HOSTS",
       .help = "Hosts for the ranks, as a:2,b:2, each with the number of devices that it is to "
               "have. The first has rank 0, and its name is one at which the others reach it. "
               "Servers of ps come beside the devices.",
       .member = &Options::hosts,
       .default_text = "this one"},
      {.name = "hostfile",
       .scope = kNotOfTune,
       .group = group,
       .hint = "FILE",
       .help = "The same from a file with a host a line: HOST, HOST:N or HOST slots=N; # begins a "
               "comment. -: from standard input.",
       .member = &Options::host_file,
       .default_text = "none"},
      {.name = "launcher",
       .scope = kNotOfTune,
       .group = group,
       .hint = "local|ssh|mpirun|srun",
       .help =
           "Who starts the ranks of every run. local: this program, here. ssh: this program, "
           "on --hosts by --remote-shell. mpirun (Open MPI), srun: that program, once a run, on "
           "--hosts or where it puts them.",
       .member = &Options::launcher,
       .rule = one_of({"local", "ssh", "mpirun", "srun"}),
       .default_text = "ssh with --hosts, else local",
       .sources = kFlag | kFile},
      {.name = "remote-shell",
       .scope = kNotOfTune,
       .group = group,
       .hint = "COMMAND",
       .help = "With --launcher=ssh: the command that runs a command line on a host, called as "
               "COMMAND HOST LINE. It may have arguments, quoted as in a shell.",
       .member = &Options::remote_shell,
       .default_text = "ssh"},
      {.name = "remote-program",
       .scope = kNotOfTune,
       .group = group,
       .hint = "PATH",
       .help = "ddpbench on the hosts. It must be the same version as here.",
       .member = &Options::remote_program,
       .default_text = "the path that it has here"},
      {.name = "launcher-args",
       .scope = kNotOfTune,
       .group = group,
       .hint = "ARGUMENTS",
       .help = "Further arguments for mpirun or srun, quoted as in a shell.",
       .member = &Options::launcher_arguments,
       .default_text = "none"},
  };
}

}  // namespace ddpbench::bench
