// The hosts of a host file of mpirun.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace trireme {

struct Host {
  std::string name;  // as the file has it: a name or an address
  int slots = 1;
  std::string options;  // what else its line says

  bool operator==(const Host&) const = default;
};

/// Hosts in the order of the file, without those of no slot; 1 slot where the file says nothing of them. A
/// host that comes twice has the slots of both lines. Throws Error(kInvalidInput) naming file and line: of a
/// name with other characters than letters, digits and ". - _ : [ ]", and for "node1" beside "node1.a.org":
/// which may be one host or two.
std::vector<Host> read_hosts(const std::filesystem::path& host_file);

/// A file that read_hosts() and mpirun read.
void write_hosts(const std::filesystem::path& host_file, std::span<const Host> hosts);

/// Options by which mpirun distinguishes hosts whose names begin with the same label, "node1.a.org" and
/// "node1.b.org": else it cuts names at their first dot and takes both for one host. Empty where no two names
/// do, and where `mpirun` says it already.
std::vector<std::string> naming_options(std::span<const Host> hosts, std::span<const std::string> mpirun);

std::vector<std::string> names_of(std::span<const Host> hosts);
int num_slots(std::span<const Host> hosts);
/// "a (2), b (2)", by name and slots; "none".
std::string to_text(std::span<const Host> hosts);

}  // namespace trireme
