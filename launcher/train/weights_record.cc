#include "launcher/train/weights_record.h"

#include <fmt/core.h>

#include <cmath>
#include <optional>

#include "launcher/state/run_checkpoint.h"
#include "runtime/base/error.h"
#include "runtime/base/folder_file.h"
#include "runtime/checkpoint/hf_model.h"
#include "runtime/checkpoint/json_file.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/data/tokenizer_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using SortedJson = nlohmann::json;

constexpr const char* kTokenizerMetadata = "trireme.tokenizer";
constexpr const char* kImagesMetadata = "trireme.images";

/// The checkpoint that init_from names by its folder or its model file. Null for other weights, and for a
/// checkpoint not written by `trireme train`.
std::optional<Checkpoint> initial_checkpoint(const fs::path& place) {
  std::error_code error;
  std::optional<Checkpoint> found;
  if (holds_checkpoint(place)) {
    found = open_checkpoint_or_run(place, Verify::kSizes);
  } else if (fs::is_regular_file(place, error) &&
             fs::exists(place.parent_path() / Manifest::kFileName, error)) {
    found = open_checkpoint(place.parent_path(), Verify::kSizes);
  }
  return found && found->manifest.content.contains("config") ? found : std::nullopt;
}

DataRecord record_in(const std::map<std::string, std::string>& metadata, const fs::path& file) {
  DataRecord record;
  const auto read = [&](const char* key, const auto& take) {
    const auto found = metadata.find(key);
    if (found == metadata.end()) return;
    try {
      take(SortedJson::parse(found->second));
    } catch (const std::exception& error) {
      throw Error(ErrorCode::kInvalidInput, "{}: {} in its header is damaged: {}", file.string(), key,
                  error.what());
    }
  };
  read(kTokenizerMetadata, [&](const SortedJson& json) {
    record.tokenizer = {.kind = json.at("kind").get<std::string>(),
                        .hash = std::stoull(json.at("hash").get<std::string>(), nullptr, 16),
                        .vocab_size = read_integer<std::int64_t>(json, "vocab")};
  });
  read(kImagesMetadata, [&](const SortedJson& json) {
    record.images = ImageRecord{.size = read_integer<std::int64_t>(json, "size"),
                                .center = json.at("center").get<double>(),
                                .mean = json.at("mean").get<std::array<double, 3>>(),
                                .stddev = json.at("std").get<std::array<double, 3>>()};
  });
  return record;
}

void read_hf_tokenizer(const fs::path& folder, WeightsRecord& weights) {
  std::error_code error;
  bool has_tokenizer = false;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt"}) {
    has_tokenizer = has_tokenizer || fs::exists(folder / name, error);
  }
  if (!has_tokenizer) return;
  try {
    weights.data.tokenizer = record_of(*load_tokenizer_folder(folder));
  } catch (const Error& unread) {
    weights.notes.push_back(fmt::format("the tokenizer of {} cannot be compared with that of the data: {}",
                                        folder.string(), unread.what()));
  }
}

WeightsRecord record_of_hf_folder(const fs::path& folder, const DataRecord& met) {
  WeightsRecord weights{.place = folder.string(), .data = {}, .notes = {}};
  if (!met.tokenizer.kind.empty()) read_hf_tokenizer(folder, weights);
  std::error_code error;
  const fs::path preprocessor = folder / kHfPreprocessorFile;
  if (!met.images || !fs::exists(preprocessor, error)) return weights;
  weights.data.images = image_record_of_hf(preprocessor);
  const std::int64_t size = weights.data.images->size;
  if (size > 0 && size != met.images->size) {
    weights.notes.push_back(fmt::format("{} makes pictures of {} x {}, and data.image_size is {}",
                                        preprocessor.string(), size, size, met.images->size));
  }
  return weights;
}

/// The value at `key`, or `otherwise` if it is missing or null.
template <class Value>
Value value_of(const SortedJson& json, const fs::path& file, const char* key, Value otherwise) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return otherwise;
  try {
    return found->get<Value>();
  } catch (const SortedJson::exception&) {
    throw Error(ErrorCode::kInvalidInput, "{}: {} is {:.100}, which is no such value", file.string(), key,
                found->dump());
  }
}

/// One number, or equal height and width; 0: the shape depends on the image.
std::int64_t side_of(const SortedJson& json, const fs::path& file, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return 0;
  const bool is_object = found->is_object();
  const SortedJson height = is_object ? found->value("height", SortedJson()) : *found;
  const SortedJson width = is_object ? found->value("width", SortedJson()) : *found;
  if (is_object && height.is_null() && width.is_null()) return 0;  // shortest_edge
  TRIREME_CHECK(height.is_number_unsigned() && height == width && height > 0 && height < (1 << 20),
                "{}: {} is {:.100}, and this build has square pictures of a fixed size", file.string(), key,
                found->dump());
  return height.get<std::int64_t>();
}

}  // namespace

WeightsRecord record_of_weights(const fs::path& init_from, const DataRecord& met) {
  if (const auto checkpoint = initial_checkpoint(init_from)) {
    return {.place = checkpoint->folder.string(), .data = read_run_state(*checkpoint).data, .notes = {}};
  }
  std::error_code error;
  if (fs::is_regular_file(init_from, error)) {
    const SafetensorsReader file(init_from);
    return {.place = init_from.string(), .data = record_in(file.metadata(), init_from), .notes = {}};
  }
  if (fs::exists(init_from / kHfConfigFile, error)) return record_of_hf_folder(init_from, met);
  return {};
}

void add_data_record(const DataRecord& record, std::map<std::string, std::string>& metadata) {
  const TokenizerRecord& tokenizer = record.tokenizer;
  if (!tokenizer.kind.empty()) {
    metadata[kTokenizerMetadata] = SortedJson{
        {"kind", tokenizer.kind},
        {"hash", fmt::format("{:016x}", tokenizer.hash)},
        {"vocab",
         tokenizer.vocab_size}}.dump();
  }
  if (!record.images) return;
  const ImageRecord& images = *record.images;
  metadata[kImagesMetadata] = SortedJson{
      {"size", images.size},
      {"center", images.center},
      {"mean", images.mean},
      {"std", images.stddev}}.dump();
}

nlohmann::ordered_json hf_preprocessor_of(const ImageRecord& images) {
  return {{"do_normalize", true},
          {"do_rescale", true},
          {"do_resize", true},
          {"image_mean", images.mean},
          {"image_processor_type", "ViTImageProcessor"},
          {"image_std", images.stddev},
          {"resample", 2},
          {"rescale_factor", 1.0 / 255},
          {"size", {{"height", images.size}, {"width", images.size}}}};
}

ImageRecord image_record_of_hf(const fs::path& file) {
  check_is_within(
      {.folder = file.parent_path(), .name = file.filename().string(), .what = "image processor"});
  const SortedJson json = read_json_file(file, "image processor");
  TRIREME_CHECK(json.is_object(), "image processor {} is no JSON object", file.string());
  ImageRecord images{.mean = {0, 0, 0}, .stddev = {1, 1, 1}};
  if (value_of(json, file, "do_normalize", true)) {
    constexpr std::array<double, 3> kHalf = {0.5, 0.5, 0.5};  // the defaults of transformers for ViT
    images.mean = value_of(json, file, "image_mean", kHalf);
    images.stddev = value_of(json, file, "image_std", kHalf);
  }
  const double factor =
      value_of(json, file, "do_rescale", true) ? value_of(json, file, "rescale_factor", 1.0 / 255) : 1.0;
  TRIREME_CHECK(std::isfinite(factor) && factor > 0, "{}: rescale_factor is {}", file.string(), factor);
  const double white = 255 * factor;
  if (std::abs(white - 1) > 1e-9) {
    for (double& value : images.mean) value /= white;
    for (double& value : images.stddev) value /= white;
  }
  const bool crops = value_of(json, file, "do_center_crop", false);
  if (crops || value_of(json, file, "do_resize", true)) {
    images.size = side_of(json, file, crops ? "crop_size" : "size");
  }
  return images;
}

}  // namespace trireme
