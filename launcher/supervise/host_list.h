// The hosts in a host file of mpirun.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace trireme {

struct Host {
  std::string name;  // a name or an address, as written in the file
  int slots = 1;
  std::string options;  // the rest of its line

  bool operator==(const Host&) const = default;
};

/// Hosts in the order of the file, without hosts of 0 slots. A host without a slot count has 1 slot; a host
/// listed twice has the sum of both lines. Throws Error(kInvalidInput) with file and line for a name with
/// characters other than letters, digits and ". - _ : [ ]". Also refuses "node1" beside "node1.a.org", which
/// may be one host or two.
std::vector<Host> read_hosts(const std::filesystem::path& host_file);

/// Writes a file that read_hosts() and mpirun can read.
void write_hosts(const std::filesystem::path& host_file, std::span<const Host> hosts);

/// Options that make mpirun distinguish hosts with the same first label, "node1.a.org" and "node1.b.org". By
/// default mpirun cuts names at the first dot and treats both as one host. Empty if no two names share a
/// label, or if the options `mpirun` set this already.
std::vector<std::string> naming_options(std::span<const Host> hosts, std::span<const std::string> mpirun);

std::vector<std::string> names_of(std::span<const Host> hosts);
int num_slots(std::span<const Host> hosts);
/// Names and slots, "a (2), b (2)"; "none" for an empty list.
std::string to_text(std::span<const Host> hosts);

}  // namespace trireme
