#include "launcher/report/plan_time.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "launcher/cluster/cluster_file.h"
#include "launcher/families/model_family.h"
#include "launcher/render/text_table.h"
#include "runtime/base/error.h"

namespace trireme {

ClusterChoice read_cluster_choice(const std::string& file, const std::string& device,
                                  const RankPlace& place) {
  return with_device({read_cluster(file), file, device}, place);
}

ClusterChoice with_device(ClusterChoice choice, const RankPlace& place) {
  const std::string& file = choice.file;
  if (!choice.device.empty()) {
    priced_on(choice, [&] { return choice.ranks_device().name; });  // throws for an unknown device
    return choice;
  }
  const int ranks = std::min(place.num_ranks, choice.cluster.ranks_per_node);
  std::vector<std::string> names, fitting, exact;
  for (const ClusterDevice& known : choice.cluster.devices) {
    names.push_back(known.name);
    if (known.threads != 0 && known.threads != place.threads) continue;
    if (known.ranks == 0) fitting.push_back(known.name);
    if (known.ranks == ranks) exact.push_back(known.name);
  }
  if (!exact.empty()) fitting = exact;
  TRIREME_CHECK(!fitting.empty(),
                "{}: no device was measured with {} thread(s) a rank; measure it, or choose with {}: {}",
                file, place.threads, place.chosen_by, fmt::join(names, ", "));
  TRIREME_CHECK(fitting.size() == 1, "{}: which device do the ranks have? Choose with {}: {}", file,
                place.chosen_by, fmt::join(fitting, ", "));
  choice.device = fitting[0];
  return choice;
}

MeasuredCard card_of(const ClusterChoice& choice) {
  MeasuredCard card;
  card.name = choice.device;
  card.file = choice.file;
  card.memory_bytes = static_cast<std::int64_t>(choice.ranks_device().memory_gb * 1e9);
  return card;
}

PlanTime plan_time(const JobConfig& config, const PlannedJob& job, const StepPlan& plan,
                   const ClusterChoice& choice) {
  PlanTime time{.cluster = choice.cluster.name,
                .device = choice.device,
                .price = priced_on(choice, [&] {
                  return price_plan(job, plan, choice.cluster, choice.ranks_device(), KeepTimeline::kYes);
                })};
  time.samples_per_s = static_cast<double>(config.train.global_batch) * 1e3 / time.price.step_ms;
  if (!family_of(config.model).makes_pictures) {  // their seq_len counts vectors of a condition
    time.tokens_per_s = time.samples_per_s * static_cast<double>(config.model.seq_len);
  }
  time.steps = config.train.steps;
  time.hours = time.price.step_ms * static_cast<double>(config.train.steps) / 3.6e6;
  time.cost = time.hours * job.num_ranks * choice.ranks_device().price_per_hour;
  return time;
}

std::string to_text(const PlanTime& time) {
  const PlanPrice& price = time.price;
  const std::string tokens = time.tokens_per_s > 0 ? fmt::format(", {:.0f} tokens/s", time.tokens_per_s) : "";
  std::string whole = fmt::format("; {} steps take {:.3g} h", time.steps, time.hours);
  if (time.cost > 0) whole += fmt::format(" and cost {:.2f}", time.cost);
  return wrapped(fmt::format(
      "on {} ({}), predicted: {:.3f} ms a step, {:.2f} samples/s{}; MFU {:.1f} %, pipeline bubble and uneven "
      "ranks {:.1f} %, exposed communication {:.3f} ms{}",
      time.cluster, time.device, price.step_ms, time.samples_per_s, tokens, 100 * price.mfu,
      100 * price.bubble_share, price.exposed_ms, whole));
}

}  // namespace trireme
