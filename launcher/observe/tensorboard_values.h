// What TensorBoard shows of a run, as values of its Summary message: tensorboard/compat/proto/summary.proto,
// tensorboard/plugins/hparams/plugin_data.proto.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trireme {

/// Name and value of what a job was given.
using Hyperparameter = std::pair<std::string, std::variant<bool, double, std::string>>;

/// Rounded to fp32, as the format has it.
std::string scalar_value(std::string_view tag, double number);

/// Of positive numbers, at least one: buckets whose bounds grow by a tenth.
std::string histogram_value(std::string_view tag, std::span<const double> numbers);

// Of the hparams plugin. Times are Unix times in seconds.
std::string session_start_value(const std::vector<Hyperparameter>& hyperparameters, double now_s);
enum class SessionEnd : int { kSuccess = 1, kFailure = 2 };
std::string session_end_value(SessionEnd end, double now_s);

}  // namespace trireme
