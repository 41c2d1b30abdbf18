// Values of TensorBoard's Summary message: tensorboard/compat/proto/summary.proto,
// tensorboard/plugins/hparams/plugin_data.proto.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trireme {

/// Name and value of a job's setting.
using Hyperparameter = std::pair<std::string, std::variant<bool, double, std::string>>;

/// Rounded to fp32, as the format requires.
std::string scalar_value(std::string_view tag, double number);

/// For positive numbers, at least one: each bucket's bound is 10 % above the one before.
std::string histogram_value(std::string_view tag, std::span<const double> numbers);

// For the hparams plugin. Times are Unix times in seconds.
std::string session_start_value(const std::vector<Hyperparameter>& hyperparameters, double now_s);
enum class SessionEnd : int { kSuccess = 1, kFailure = 2 };
std::string session_end_value(SessionEnd end, double now_s);

}  // namespace trireme
