#include "parallel/foresee/short_step.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "parallel/reduce/reduction_tree.h"

namespace trireme {
namespace {

/// Numbers of partial sums that remain to be exchanged.
struct Partials {
  std::int64_t most = 0, all = 0, of_first = 0;  // maximum over ranks, total, and of the first rank

  bool operator==(const Partials&) const = default;
};

Partials partials_of(const BatchLayout& batch) {
  Partials found;
  for (int rank = 0; rank < batch.data_ranks; ++rank) {
    const std::int64_t of_rank = num_partial_sums(batch.first_of(rank), batch.count_of(rank));
    if (rank == 0) found.of_first = of_rank;
    found.most = std::max(found.most, of_rank);
    found.all += of_rank;
  }
  return found;
}

/// True if a step exchanges, adds and keeps no more than the whole one, also in the mean of its
/// micro-batches. A single partial sum per rank would be exchanged by hosts.
bool is_no_longer(const BatchLayout& brief, const Partials& few, const BatchLayout& whole,
                  const Partials& all) {
  return few.most <= all.most && few.all <= all.all && (few.most > 1 || all.most == 1) &&
         few.of_first * whole.per_rank() >= all.of_first * brief.per_rank();
}

/// Halves `rounds` as often as possible; the number of partial sums stays the same.
template <class ShowsAll>
std::int64_t halved(std::int64_t rounds, const ShowsAll& shows_all) {
  while (rounds % 2 == 0 && shows_all(rounds / 2)) rounds /= 2;
  return rounds;
}

/// Micro-batches of the ranks with the fewest: at least `fewest`, and fewer than in `whole`.
template <class ShowsAll>
std::int64_t fewer_rounds(const BatchLayout& whole, std::int64_t fewest, Shortened shortened,
                          const ShowsAll& shows_all) {
  const std::int64_t rounds = whole.num_micro_batches() / whole.data_ranks;
  const std::int64_t more = whole.num_micro_batches() % whole.data_ranks;
  const std::int64_t likely_enough = 4 * std::max<std::int64_t>(fewest, 2);
  const Partials all = partials_of(whole);
  const auto distance = [&](const Partials& few) {
    return std::pair(all.most - few.most, std::abs(all.all - few.all));
  };
  std::int64_t best = rounds;
  std::optional<Partials> of_best;
  for (std::int64_t n = fewest; n < rounds; ++n) {
    if (of_best && n > likely_enough) break;
    if (!shows_all(n)) continue;
    BatchLayout brief = whole;
    brief.global_batch = brief.micro_batch * (n * brief.data_ranks + more);
    const Partials few = partials_of(brief);
    const bool fits =
        shortened == Shortened::kAsWhole ? few.most == all.most : is_no_longer(brief, few, whole, all);
    if (!fits || (of_best && distance(few) >= distance(*of_best))) continue;
    best = n;
    of_best = few;
    if (distance(few) == distance(all)) break;
  }
  return best;
}

}  // namespace

PlannedJob short_step(PlannedJob job, std::int64_t fewest, Shortened shortened) {
  EngineOptions& options = job.options;
  const Mesh mesh = mesh_of(job.num_ranks, options.layout.pipeline, options.layout.tensor);
  BatchLayout batch{.global_batch = options.global_batch,
                    .micro_batch = options.micro_batch,
                    .data_ranks = mesh.size(Axis::kData)};
  const std::int64_t all = batch.num_micro_batches(), rounds = all / batch.data_ranks;
  if (options.global_batch % options.micro_batch != 0 || rounds == 0) return job;
  const std::int64_t stages = options.layout.pipeline;
  const auto shows_all = [&](std::int64_t n) {
    return n >= fewest && (rounds % stages != 0 || n % stages == 0);
  };
  std::int64_t fewer = rounds;
  if (batch.is_even()) {
    fewer = halved(rounds, shows_all);
    batch.global_batch = options.micro_batch * batch.data_ranks * fewer;
  }
  if (fewer >= 2 * std::max<std::int64_t>(fewest, 2))
    fewer = fewer_rounds(batch, fewest, shortened, shows_all);
  options.global_batch = options.micro_batch * (fewer * batch.data_ranks + all % batch.data_ranks);
  return job;
}

}  // namespace trireme
