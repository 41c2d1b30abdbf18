#include "launcher/config/key_scopes.h"

#include <fmt/core.h>

namespace trireme {

KeyScope for_gpts() {
  return {.text = "GPTs", .decided_by = "model.name", .holds = [](const JobConfig& job) {
            return job.model.name == "gpt";
          }};
}

KeyScope for_resnets() {
  return {.text = "ResNets", .decided_by = "model.name", .holds = [](const JobConfig& job) {
            return job.model.name != "gpt";
          }};
}

KeyScope for_crop(ViewOptions::Crop crop) {
  return {.text = fmt::format("crop = \"{}\"", to_word(crop)),
          .decided_by = "data.crop",
          .holds = [crop](const JobConfig& job) { return job.data.crop == crop; }};
}

}  // namespace trireme
