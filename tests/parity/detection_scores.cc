// COCO's scores of detections, and non-maximum suppression, for other tools to compare with.
//
//   detection_scores scores ANNOTATIONS.json RESULTS.json
//   detection_scores suppress RESULTS.json MAX_OVERLAP MAX_DETECTIONS
//
// RESULTS has COCO's format for results. Prints an object of scores, or the remaining results of one picture,
// whose category ids are taken for labels.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "runtime/data/detection/average_precision.h"
#include "runtime/data/detection/coco_file.h"
#include "runtime/data/detection/non_maximum_suppression.h"

namespace trireme {
namespace {

using nlohmann::json;

json read_results(const char* path) {
  std::ifstream file(path);
  return json::parse(file);
}

Detection detection_of(const json& result, std::int32_t label) {
  const json& box = result.at("bbox");
  return {.box = {box[0].get<double>(), box[1].get<double>(), box[2].get<double>(), box[3].get<double>()},
          .label = label,
          .score = result.at("score").get<double>()};
}

json scores_of(const char* annotations, const char* results) {
  const LabelledPictures set = read_coco_file(annotations);
  std::map<std::int64_t, std::int32_t> labels;
  for (const std::int64_t id : set.category_ids) labels[id] = static_cast<std::int32_t>(labels.size());
  std::map<std::int64_t, std::vector<Detection>> found;  // by picture
  for (const json& result : read_results(results)) {
    const auto label = labels.at(result.at("category_id").get<std::int64_t>());
    found[result.at("image_id").get<std::int64_t>()].push_back(detection_of(result, label));
  }
  AveragePrecision all(static_cast<std::int32_t>(set.class_names.size()));
  for (const LabelledPicture& picture : set.pictures) all.add(picture.boxes, found[picture.id]);
  const DetectionScores scores = all.scores();
  return {{"stats",
           {scores.ap, scores.ap50, scores.ap75, scores.ap_small, scores.ap_medium, scores.ap_large,
            scores.ar1, scores.ar10, scores.ar100, scores.ar_small, scores.ar_medium, scores.ar_large}},
          {"class_ap", scores.class_ap}};
}

json suppressed(const char* results, const SuppressionOptions& options) {
  std::vector<Detection> detections;
  for (const json& result : read_results(results))
    detections.push_back(detection_of(result, result.at("category_id").get<std::int32_t>()));
  json kept = json::array();
  for (const Detection& found : suppress_non_maxima(detections, options)) {
    const ImageBox& box = found.box;
    kept.push_back({{"bbox", {box.x, box.y, box.width, box.height}},
                    {"category_id", found.label},
                    {"score", found.score}});
  }
  return kept;
}

int run(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  json printed;
  if (command == "scores" && argc == 4) {
    printed = scores_of(argv[2], argv[3]);
  } else if (command == "suppress" && argc == 5) {
    printed = suppressed(argv[2], {.max_overlap = std::stod(argv[3]), .max_detections = std::stoi(argv[4])});
  } else {
    fmt::print(stderr,
               "usage: detection_scores scores ANNOTATIONS RESULTS | suppress RESULTS OVERLAP COUNT\n");
    return 2;
  }
  fmt::print("{}\n", printed.dump());
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  try {
    return trireme::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
