// Layouts of training samples and their boxes, for detection_boxes_parity.py to compare.
//
//   detection_boxes CASES.json
//
// A case has `seed`, `side`, `options` (mosaic, mixup, scale, mixup_scale, shift, flip) and `pictures`, each
// with its `size` [width, height] and `objects` [x, y, width, height, label, crowd]. Prints a list with an
// object for each case: its layers of parts, each with its boxes [x, y, width, height, label].
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/data/detection/picture_layout.h"

namespace trireme {
namespace {

using nlohmann::json;

struct Picture {
  ImageSize size;
  std::vector<LabelledBox> objects;
};

Picture picture_of(const json& stated) {
  Picture picture{.size = {stated["size"][0].get<int>(), stated["size"][1].get<int>()}, .objects = {}};
  for (const json& object : stated["objects"]) {
    picture.objects.push_back({.box = {object[0].get<double>(), object[1].get<double>(),
                                       object[2].get<double>(), object[3].get<double>()},
                               .label = object[4].get<std::int32_t>(),
                               .is_crowd = object[5].get<int>() != 0});
  }
  return picture;
}

LayoutOptions options_of(const json& stated) {
  return {.mosaic_probability = stated["mosaic"].get<double>(),
          .mixup_probability = stated["mixup"].get<double>(),
          .scale = stated["scale"].get<std::array<double, 2>>(),
          .mixup_scale = stated["mixup_scale"].get<std::array<double, 2>>(),
          .shift = stated["shift"].get<double>(),
          .flip_probability = stated["flip"].get<double>()};
}

json layout_of(const json& stated) {
  std::vector<Picture> pictures;
  std::vector<ImageSize> sizes;
  for (const json& picture : stated["pictures"]) {
    pictures.push_back(picture_of(picture));
    sizes.push_back(pictures.back().size);
  }
  ImageRandom random(ImageRandom::Stream::kMix, stated["seed"].get<std::uint64_t>(), 0, 0);
  const PictureLayout layout =
      draw_layout(options_of(stated["options"]), sizes, 0, stated["side"].get<int>(), random);
  json layers = json::array();
  for (const auto& parts : layout.layers) {
    layers.push_back(json::array());
    for (const PicturePart& part : parts) {
      const Picture& picture = pictures[static_cast<std::size_t>(part.member)];
      std::vector<SampleBox> boxes;
      add_visible_boxes(part, picture.size, picture.objects, {}, boxes);
      json rows = json::array();
      for (const auto& [box, label] : boxes) rows.push_back({box.x, box.y, box.width, box.height, label});
      layers.back().push_back({{"member", part.member},
                               {"from", {part.from.x, part.from.y, part.from.width, part.from.height}},
                               {"at", {part.x, part.y, part.width, part.height}},
                               {"mirror", part.mirror == Mirror::kYes},
                               {"boxes", rows}});
    }
  }
  return layers;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: detection_boxes CASES.json\n");
    return 2;
  }
  try {
    std::ifstream file(argv[1]);
    nlohmann::json found = nlohmann::json::array();
    for (const nlohmann::json& stated : nlohmann::json::parse(file))
      found.push_back(trireme::layout_of(stated));
    fmt::print("{}\n", found.dump());
  } catch (const std::exception& error) {
    fmt::print(stderr, "detection_boxes: {}\n", error.what());
    return 1;
  }
  return 0;
}
