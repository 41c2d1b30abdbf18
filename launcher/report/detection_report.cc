#include "launcher/report/detection_report.h"

#include <fmt/core.h>

#include "launcher/render/text_table.h"
#include "runtime/base/terminal_text.h"

namespace trireme {
namespace {

struct FigureRow {
  const char *name, *overlap, *area, *detections, *key;
  double DetectionScores::*value;
};
// In COCO's order.
constexpr FigureRow kFigures[] = {
    {"AP", "0.50:0.95", "all", "100", "ap", &DetectionScores::ap},
    {"AP50", "0.50", "all", "100", "ap50", &DetectionScores::ap50},
    {"AP75", "0.75", "all", "100", "ap75", &DetectionScores::ap75},
    {"AP", "0.50:0.95", "small", "100", "ap_small", &DetectionScores::ap_small},
    {"AP", "0.50:0.95", "medium", "100", "ap_medium", &DetectionScores::ap_medium},
    {"AP", "0.50:0.95", "large", "100", "ap_large", &DetectionScores::ap_large},
    {"AR", "0.50:0.95", "all", "1", "ar1", &DetectionScores::ar1},
    {"AR", "0.50:0.95", "all", "10", "ar10", &DetectionScores::ar10},
    {"AR", "0.50:0.95", "all", "100", "ar100", &DetectionScores::ar100},
    {"AR", "0.50:0.95", "small", "100", "ar_small", &DetectionScores::ar_small},
    {"AR", "0.50:0.95", "medium", "100", "ar_medium", &DetectionScores::ar_medium},
    {"AR", "0.50:0.95", "large", "100", "ar_large", &DetectionScores::ar_large}};

std::string figure_text(double value) {
  return value < 0 ? std::string("-") : fmt::format("{:.4f}", value);
}

nlohmann::ordered_json figure_json(double value) {
  return value < 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(value);
}

std::string class_name(const std::vector<std::string>& names, std::size_t label) {
  return label < names.size() ? names[label] : fmt::format("{}", label);
}

}  // namespace

std::string to_text(const DetectionScores& scores, const std::vector<std::string>& names) {
  TextRows rows = {{"figure", "overlap", "area", "detections", "value"}};
  for (const FigureRow& row : kFigures) {
    rows.push_back({row.name, row.overlap, row.area, row.detections, figure_text(scores.*row.value)});
  }
  std::string text = to_text(std::move(rows), TableShape{.num_left = 3, .num_kept = 5});
  TextRows classes = {{"class", "AP"}};
  for (std::size_t label = 0; label < scores.class_ap.size(); ++label) {
    classes.push_back({terminal_text(class_name(names, label)), figure_text(scores.class_ap[label])});
  }
  return text + to_text(std::move(classes), TableShape{.num_kept = 2});
}

nlohmann::ordered_json to_json(const DetectionScores& scores, const std::vector<std::string>& names) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const FigureRow& row : kFigures) json[row.key] = figure_json(scores.*row.value);
  json["class_ap"] = nlohmann::ordered_json::array();
  for (std::size_t label = 0; label < scores.class_ap.size(); ++label) {
    json["class_ap"].push_back(
        {{"name", class_name(names, label)}, {"ap", figure_json(scores.class_ap[label])}});
  }
  return json;
}

}  // namespace trireme
