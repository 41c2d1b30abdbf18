#include "launcher/train/spike_watch.h"

#include <fmt/core.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/host/agreement.h"
#include "runtime/base/appended_file.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

using SortedJson = nlohmann::json;

SortedJson rollbacks_of(const std::filesystem::path& path) {
  check_is_no_link(path);
  SortedJson steps = SortedJson::array();
  std::ifstream file(path, std::ios::binary);
  int number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    if (file.eof()) break;  // an unfinished last line of a run that died
    const SortedJson line = SortedJson::parse(text, nullptr, /*allow_exceptions=*/false);
    const bool is_step = line.is_object() && line.contains("step") && line["step"].is_number_integer() &&
                         line["step"].get<std::int64_t>() >= 1;
    TRIREME_CHECK(
        is_step,
        "{}:{}: not a line such as {{\"step\":12}}, with a step of 1 or more: {:.80}; remove the file to "
        "forget earlier rollbacks",
        path.string(), number, text);
    steps.push_back(line["step"]);
  }
  return steps;
}

}  // namespace

SpikeWatch::SpikeWatch(OnSpike policy, Communicator& comm, std::filesystem::path rollbacks,
                       const SpikeState& state)
    : policy_(policy),
      file_(std::move(rollbacks)),
      detector_(state.loss, state.grad_norm),
      calm_from_(state.calm_from),
      left_out_in_a_row_(state.left_out_in_a_row) {
  if (policy == OnSpike::kIgnore) return;
  std::string known;
  run_stage(comm, [&] {
    if (comm.rank() == 0) known = rollbacks_of(file_).dump();
  });
  for (const SortedJson& step : SortedJson::parse(text_of_rank(comm, 0, known)))
    rolled_back_.insert(step.get<std::int64_t>());
}

SpikeState SpikeWatch::state() const {
  return {.loss = detector_.loss(),
          .grad_norm = detector_.grad_norm(),
          .calm_from = calm_from_,
          .left_out_in_a_row = left_out_in_a_row_};
}

bool SpikeWatch::leaves_out(double loss, double grad_norm) const {
  return policy_ == OnSpike::kSkip && left_out_in_a_row_ < kMostLeftOut &&
         detector_.look(loss, grad_norm).has_value();
}

SpikeWatch::Finding SpikeWatch::look_at_left_out(const StepResult& step) {
  ++left_out_in_a_row_;
  const auto spike = detector_.look(step.loss, step.grad_norm);
  return {.text = fmt::format("step {}: {}", step.step, spike.value_or("a spike")), .left_out = true};
}

SpikeWatch::Finding SpikeWatch::look(const StepResult& step) {
  if (step.left_out() && policy_ == OnSpike::kSkip) return look_at_left_out(step);
  if (step.skipped) return {};
  const int left_out = std::exchange(left_out_in_a_row_, 0);
  const auto spike = detector_.add(step.loss, step.grad_norm);
  if (!spike || policy_ == OnSpike::kIgnore) return {};
  Finding finding{.text = fmt::format("step {}: {}", step.step, *spike),
                  .came_again = rolled_back_.contains(step.step),
                  .is_taken = policy_ == OnSpike::kSkip && left_out >= kMostLeftOut};
  if (finding.came_again) calm_from_ = step.step + static_cast<std::int64_t>(SpikeDetector::kWindow);
  finding.rolls_back = policy_ == OnSpike::kRollback && !finding.came_again && step.step >= calm_from_;
  return finding;
}

void SpikeWatch::remember(const StepResult& step) const {
  AppendedFile file(file_);
  const std::string text = file.read();
  // A run that died may have left an unfinished line, which this record must not extend.
  const std::size_t end = text.rfind('\n');
  const std::size_t whole = end == std::string::npos ? 0 : end + 1;
  if (whole < text.size()) file.shorten(whole);
  file.append(SortedJson{{"step", step.step}, {"loss", step.loss}, {"grad_norm", step.grad_norm}}.dump() +
              "\n");
  file.sync();
}

}  // namespace trireme
