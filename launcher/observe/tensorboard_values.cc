#include "launcher/observe/tensorboard_values.h"

#include <algorithm>
#include <cmath>

#include "launcher/observe/wire_format.h"

namespace trireme {
namespace {

// Field numbers of the messages.
constexpr int kValueTag = 1, kValueSimple = 2, kValueHistogram = 5, kValueTensor = 8, kValueMetadata = 9;
constexpr int kHistogramMin = 1, kHistogramMax = 2, kHistogramNum = 3, kHistogramSum = 4,
              kHistogramSumOfSquares = 5, kHistogramLimits = 6, kHistogramCounts = 7;
constexpr int kTensorType = 1, kTensorFloat = 1, kTensorShape = 2;
constexpr int kMetadataPlugin = 1, kPluginName = 1, kPluginContent = 2;
constexpr int kHparamsStart = 3, kHparamsEnd = 4;
constexpr int kStartHparams = 1, kStartTime = 5, kEndStatus = 1, kEndTime = 2;
constexpr int kMapKey = 1, kMapValue = 2;
constexpr int kStructNumber = 2, kStructString = 3, kStructBool = 4;

struct AppendStructValue {
  std::string& to;
  void operator()(bool value) const { append_integer(to, kStructBool, value ? 1 : 0); }
  void operator()(double value) const { append_double(to, kStructNumber, value); }
  void operator()(const std::string& value) const { append_text(to, kStructString, value); }
};

/// A value whose content is in the plugin's metadata, with an empty tensor.
std::string hparams_value(std::string_view tag, int field, std::string_view content) {
  std::string data, plugin, metadata, tensor, value;
  append_text(data, field, content);
  append_text(plugin, kPluginName, "hparams");
  append_text(plugin, kPluginContent, data);
  append_text(metadata, kMetadataPlugin, plugin);
  append_integer(tensor, kTensorType, kTensorFloat);
  append_text(tensor, kTensorShape, "");
  append_text(value, kValueTag, tag);
  append_text(value, kValueTensor, tensor);
  append_text(value, kValueMetadata, metadata);
  return value;
}

}  // namespace

std::string scalar_value(std::string_view tag, double number) {
  std::string value;
  append_text(value, kValueTag, tag);
  append_float(value, kValueSimple, static_cast<float>(number));
  return value;
}

std::string histogram_value(std::string_view tag, std::span<const double> numbers) {
  constexpr double kGrowth = 1.1;
  const auto bucket_of = [](double number) {
    return static_cast<int>(std::floor(std::log(number) / std::log(kGrowth)));
  };
  const auto [least, largest] = std::ranges::minmax(numbers);
  const int first = bucket_of(least);
  std::vector<double> limits, counts;
  for (int bucket = first; bucket <= bucket_of(largest); ++bucket) {
    limits.push_back(std::pow(kGrowth, bucket + 1));
    counts.push_back(0);
  }
  double sum = 0, sum_of_squares = 0;
  for (const double number : numbers) {
    ++counts[static_cast<std::size_t>(bucket_of(number) - first)];
    sum += number;
    sum_of_squares += number * number;
  }
  std::string histogram, value;
  append_double(histogram, kHistogramMin, least);
  append_double(histogram, kHistogramMax, largest);
  append_double(histogram, kHistogramNum, static_cast<double>(numbers.size()));
  append_double(histogram, kHistogramSum, sum);
  append_double(histogram, kHistogramSumOfSquares, sum_of_squares);
  append_doubles(histogram, kHistogramLimits, limits);
  append_doubles(histogram, kHistogramCounts, counts);
  append_text(value, kValueTag, tag);
  append_text(value, kValueHistogram, histogram);
  return value;
}

std::string session_start_value(const std::vector<Hyperparameter>& hyperparameters, double now_s) {
  std::string start;
  for (const auto& [name, value] : hyperparameters) {
    std::string entry, text;
    std::visit(AppendStructValue{text}, value);
    append_text(entry, kMapKey, name);
    append_text(entry, kMapValue, text);
    append_text(start, kStartHparams, entry);
  }
  append_double(start, kStartTime, now_s);
  return hparams_value("_hparams_/session_start_info", kHparamsStart, start);
}

std::string session_end_value(SessionEnd status, double now_s) {
  std::string end;
  append_integer(end, kEndStatus, static_cast<int>(status));
  append_double(end, kEndTime, now_s);
  return hparams_value("_hparams_/session_end_info", kHparamsEnd, end);
}

}  // namespace trireme
