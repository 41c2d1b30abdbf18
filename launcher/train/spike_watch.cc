#include "launcher/train/spike_watch.h"

#include <fmt/core.h>

#include <deque>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "launcher/train/agreement.h"
#include "runtime/base/error.h"
#include "runtime/base/file_writer.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

// [loss, grad_norm] of the last steps of metrics.jsonl, oldest first. Numbers come back as they were.
Json last_steps(const std::filesystem::path& metrics) {
  std::deque<Json> steps;
  std::ifstream file(metrics, std::ios::binary);
  for (std::string text; std::getline(file, text);) {
    const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object() || !line.contains("grad_norm") || line.value("skipped", false)) continue;
    if (!line["grad_norm"].is_number() || !line["loss"].is_number()) continue;
    steps.push_back({line["loss"], line["grad_norm"]});
    if (steps.size() > SpikeDetector::kMemory) steps.pop_front();
  }
  return steps;
}

Json rollbacks_of(const std::filesystem::path& path) {
  Json steps = Json::array();
  std::ifstream file(path, std::ios::binary);
  int number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    try {
      steps.push_back(read_integer<std::int64_t>(parse_json(text), "step"));
    } catch (const std::exception& error) {
      if (file.eof()) break;  // a line that a dying run left unfinished
      throw Error(ErrorCode::kInvalidInput, "{}:{}: {:.200}; remove the file to forget earlier rollbacks",
                  path.string(), number, error.what());
    }
  }
  return steps;
}

// That a dying run left: what is appended would become a part of it.
void remove_unfinished_line(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t end = text.rfind('\n');
  const std::size_t whole = end == std::string::npos ? 0 : end + 1;
  if (whole < text.size()) std::filesystem::resize_file(path, whole);
}

}  // namespace

SpikeWatch::SpikeWatch(OnSpike policy, Communicator& comm, const Files& files)
    : policy_(policy), file_(files.rollbacks) {
  if (policy == OnSpike::kIgnore) return;
  std::string known;
  run_stage(comm, [&] {
    if (comm.rank() != 0) return;
    known = Json{{"steps", last_steps(files.metrics)}, {"rollbacks", rollbacks_of(files.rollbacks)}}.dump();
  });
  read(text_of_rank(comm, 0, known));
}

void SpikeWatch::read(const std::string& known) {
  const Json json = Json::parse(known);
  for (const Json& step : json["steps"]) detector_.add(step[0].get<double>(), step[1].get<double>());
  for (const Json& step : json["rollbacks"]) rolled_back_.insert(step.get<std::int64_t>());
}

SpikeWatch::Finding SpikeWatch::look(const StepResult& step) {
  if (policy_ == OnSpike::kIgnore || step.skipped) return {};
  const auto spike = detector_.add(step.loss, step.grad_norm);
  if (!spike) return {};
  Finding finding{.text = fmt::format("step {}: {}", step.step, *spike),
                  .came_again = rolled_back_.contains(step.step)};
  if (finding.came_again) calm_from_ = step.step + static_cast<std::int64_t>(SpikeDetector::kWindow);
  finding.rolls_back = policy_ == OnSpike::kRollback && !finding.came_again && step.step >= calm_from_;
  return finding;
}

void SpikeWatch::remember(const StepResult& step) const {
  remove_unfinished_line(file_);
  const std::string line =
      Json{{"step", step.step}, {"loss", step.loss}, {"grad_norm", step.grad_norm}}.dump() + "\n";
  std::ofstream file(file_, std::ios::binary | std::ios::app);
  file << line << std::flush;
  if (!file.good()) throw Error(ErrorCode::kRuntime, "cannot write {}", file_.string());
  file.close();
  sync_file(file_);
}

}  // namespace trireme
