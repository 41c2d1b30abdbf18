#include "launcher/page/run_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "launcher/observe/confusion_matrix.h"
#include "launcher/page/run_files.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

Json points_json(const std::vector<Curve::Point>& points) {
  Json x = Json::array(), y = Json::array();
  for (const Curve::Point& point : points) {
    x.push_back(point.step);
    y.push_back(point.value);
  }
  return {{"x", std::move(x)}, {"y", std::move(y)}};
}

/// True for parts of a step, which are stacked.
bool is_stacked(const std::string& name) {
  return name.starts_with("phase_s.") || name == "step_ms" || name == "data_wait_ms" ||
         name == "comm_wait_ms";
}

std::string base64(const std::string& bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<std::uint8_t>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k <= bytes.size() ? kDigits[group >> (6 * (3 - k)) & 63U] : '=';
  }
  return text;
}

/// The timeline of the traced step, or of the last one of a range; empty if no step was traced.
std::string newest_trace(const std::filesystem::path& folder) {
  std::string newest;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name == "trace.svg" || (name.starts_with("trace-") && name.ends_with(".svg")))
      newest = std::max(newest, name);
  }
  return newest;
}

struct RunPicture {
  const char *key, *type;
  std::string file;
};

/// The pictures that the run has, or may have later.
std::vector<RunPicture> pictures_of(const std::filesystem::path& folder) {
  constexpr const char *kSvg = "image/svg+xml", *kPng = "image/png";
  std::vector<RunPicture> pictures = {{"confusion", kSvg, kConfusionPicture}, {"grid", kPng, kGridPicture}};
  const std::string trace = newest_trace(folder);
  if (!trace.empty()) pictures.push_back({"timeline", kSvg, trace});
  return pictures;
}

}  // namespace

Json run_json(const RunReader& reader, const std::string& name) {
  Json series = Json::object(), means = Json::object();
  for (const RunCurves::Named& named : reader.curves().curves) {
    series[named.name] = points_json(named.curve.extremes());
    if (is_stacked(named.name) || named.curve.is_thinned())
      means[named.name] = points_json(named.curve.means());
  }
  Json run = {{"name", name},
              {"folder", reader.folder().string()},
              {"state", run_state(reader)},
              {"config", run_config(reader.folder())},
              {"series", std::move(series)},
              {"means", std::move(means)}};
  // Embedded as an image, so that scripts in it do not run.
  constexpr std::size_t kMaxPictureBytes = 2 << 20;
  for (const RunPicture& picture : pictures_of(reader.folder())) {
    const std::string bytes = text_within(reader.folder(), picture.file, kMaxPictureBytes);
    if (!bytes.empty()) run[picture.key] = "data:" + std::string(picture.type) + ";base64," + base64(bytes);
  }
  return run;
}

RunFiles picture_files(const std::filesystem::path& folder) {
  RunFiles files;
  for (const RunPicture& picture : pictures_of(folder)) {
    files.push_back(FileIdentity::of(folder / picture.file));
  }
  return files;
}

Json row_json(const MetricsLine& line) {
  Json row = {{"step", line.step}};
  for (const auto& [name, value] : line.values)
    row[name] = std::isfinite(value) ? Json(value) : Json(nullptr);
  return row;
}

}  // namespace trireme
