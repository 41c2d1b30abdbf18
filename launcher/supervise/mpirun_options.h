// Options that Open MPI's mpirun needs as root, and for more ranks than slots, unless the user chose
// otherwise.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/host/env.h"

namespace trireme {

struct MpirunNeeds {
  bool is_root = false;
  int num_ranks = 1;       // at most
  int num_cores = 1;       // of this machine: mpirun's slots if nothing else sets them
  bool has_hosts = false;  // `trireme run --hosts`, whose file sets the slots
};

struct AddedOption {
  std::string option;
  std::string reason;

  bool operator==(const AddedOption&) const = default;
};

/// `--allow-run-as-root` for root, and `--oversubscribe` if the ranks exceed the cores. `given`: options of
/// the user, which have priority, as do Open MPI's variables. `--oversubscribe` is not added if hosts or
/// slots are chosen by the user or by a scheduler (Slurm, PBS, LSF, Grid Engine): more ranks than slots are
/// an error there.
std::vector<AddedOption> needed_mpirun_options(std::span<const std::string> given, const MpirunNeeds& needs,
                                               const EnvironmentLookup& lookup = environment_variable);

/// Physical cores that this process may use. Processors of one core count once, as for mpirun. At least 1.
int count_physical_cores();

}  // namespace trireme
