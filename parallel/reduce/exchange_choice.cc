#include "parallel/reduce/exchange_choice.h"

#include <fmt/core.h>

#include <bit>

namespace trireme {
namespace {

// The reason against two levels of hosts with `per_host` data ranks each; empty if there is none.
std::string obstacle(const Mesh& mesh, int per_host, const BatchLayout& batch, Reduction reduction) {
  if (per_host == 0) {
    return "the ranks of a host are not neighbours on the data axis, or not equally many on all hosts";
  }
  if (per_host == 1) return "no host has two ranks of one data axis";
  if (per_host == mesh.size(Axis::kData)) return "no data axis spans hosts";
  if (reduction == Reduction::kFast) return "";
  if (!batch.is_even()) return "data ranks have unequally many micro-batches";
  // Strided: one micro-batch per rank and round; else all micro-batches of a step at once.
  const std::int64_t leaves =
      batch.assignment == Assignment::kStrided ? per_host : per_host * batch.per_rank();
  if (std::has_single_bit(static_cast<std::uint64_t>(leaves))) return "";
  return fmt::format(
      "the {} micro-batches of a host's {} data ranks that are summed at once are no power of two, so no "
      "complete subtree of the sum over all",
      leaves, per_host);
}

}  // namespace

ExchangeChoice choose_exchange(Exchange wanted, const Mesh& mesh, const HostMap& hosts,
                               const BatchLayout& batch, Reduction reduction) {
  // Libraries have their own algorithms for hosts: over MPI, two levels of them were slower than one.
  const bool leaves_it_to_library = wanted == Exchange::kAuto && reduction == Reduction::kFast;
  if (wanted == Exchange::kFlat || leaves_it_to_library || mesh.size(Axis::kData) == 1) return {};
  const int per_host = ranks_per_host(mesh, hosts, Axis::kData);
  ExchangeChoice choice{.why_flat = obstacle(mesh, per_host, batch, reduction)};
  if (choice.why_flat.empty()) choice.data_ranks_per_host = per_host;
  return choice;
}

}  // namespace trireme
