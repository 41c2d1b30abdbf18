#include "runtime/checkpoint/peft_writer.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/float_data.h"
#include "runtime/checkpoint/pending_folder.h"
#include "runtime/checkpoint/safetensors_writer.h"

namespace trireme {
namespace {

constexpr const char* kPrefix = "base_model.model.";

/// Rows [first_row, first_row + shape[0]) of one of our tensors, under PEFT's name.
struct Piece {
  SafetensorsEntry entry;
  const SafetensorsTensor* from = nullptr;
  std::uint64_t first_row = 0;
};

struct Contents {
  std::vector<Piece> pieces;
  std::vector<std::string> layers, whole;  // target_modules, modules_to_save
  bool transposed = false;                 // fan_in_fan_out: the weights are [in, out]
};

/// The module name: "transformer.h.0.attn.c_attn" for "transformer.h.0.attn.c_attn.weight".
std::string module_of(const HfModel& model, const std::string& tensor) {
  std::string module = tensor.substr(0, tensor.rfind('.'));
  for (const auto& [in_files, in_library] : model.module_names) {
    const std::size_t at = module.find(in_files);
    if (at != std::string::npos) module.replace(at, in_files.size(), in_library);
  }
  return module;
}

void add_adapter(Contents& contents, const SafetensorsReader& tensors, const HfModel& model,
                 const HfTensor& weight, const SavedAdapter& adapter, const std::string& dtype) {
  const SafetensorsTensor &a = tensors.tensor(adapter.a), &b = tensors.tensor(adapter.b);
  std::uint64_t row = 0;
  for (const HfPart& part : weight.parts) {
    const std::string module = module_of(model, part.name);
    const std::int64_t rows = part.shape.at(part.transposed ? 1 : 0);
    contents.pieces.push_back({{kPrefix + module + ".lora_A.weight", dtype, a.shape}, &a, 0});
    contents.pieces.push_back({{kPrefix + module + ".lora_B.weight", dtype, {rows, b.shape.at(1)}}, &b, row});
    row += static_cast<std::uint64_t>(rows);
    contents.layers.push_back(module);
    contents.transposed = contents.transposed || part.transposed;
  }
}

void add_whole(Contents& contents, const SafetensorsReader& tensors, const HfModel& model,
               const HfTensor& tensor, const std::string& dtype) {
  std::uint64_t row = 0;
  for (const HfPart& part : tensor.parts) {
    TRIREME_CHECK(!part.transposed, "tensor '{}' was trained beside adapters, and is transposed there",
                  part.name);
    const std::string module = module_of(model, part.name);
    const std::string name = kPrefix + module + part.name.substr(part.name.rfind('.'));
    contents.pieces.push_back({{name, dtype, part.shape}, &tensors.tensor(tensor.name), row});
    row += static_cast<std::uint64_t>(part.shape.at(0));
    if (std::ranges::find(contents.whole, module) == contents.whole.end()) contents.whole.push_back(module);
  }
}

Contents contents_of(const SafetensorsReader& tensors, const PeftModel& model, const std::string& dtype) {
  Contents contents;
  for (const HfTensor& tensor : model.hf.tensors) {
    const auto adapter = std::ranges::find(model.adapters.layers, tensor.name, &SavedAdapter::weight);
    if (adapter != model.adapters.layers.end()) {
      add_adapter(contents, tensors, model.hf, tensor, *adapter, dtype);
    } else if (std::ranges::find(model.trained_whole, tensor.name) != model.trained_whole.end()) {
      add_whole(contents, tensors, model.hf, tensor, dtype);
    }
  }
  return contents;
}

void write_pieces(const Contents& contents, DType dtype, const std::filesystem::path& file) {
  std::vector<SafetensorsEntry> entries;
  for (const Piece& piece : contents.pieces) entries.push_back(piece.entry);
  SafetensorsWriter writer(file, entries, {{"format", "pt"}});
  std::vector<float> values;
  std::vector<std::byte> bytes;
  for (const Piece& piece : contents.pieces) {
    std::uint64_t cols = 1, rows = static_cast<std::uint64_t>(piece.entry.shape.at(0));
    for (std::size_t dim = 1; dim < piece.entry.shape.size(); ++dim)
      cols *= static_cast<std::uint64_t>(piece.entry.shape[dim]);
    TRIREME_CHECK(piece.from->dtype == "F32" && (piece.first_row + rows) * cols <= piece.from->num_elems,
                  "tensor '{}' is too small for '{}'", piece.from->name, piece.entry.name);
    values.resize(rows * cols);
    copy_as_floats(*piece.from, piece.first_row * cols, values);
    const float first_infinite = float_format(dtype).first_infinite;
    const auto bad = std::ranges::find_if(
        values, [&](float v) { return std::isfinite(v) && std::abs(v) >= first_infinite; });
    TRIREME_CHECK(bad == values.end(), "tensor '{}' holds {}, which {} cannot: choose a wider one",
                  piece.entry.name, *bad, name(dtype));
    bytes.clear();
    append_rounded(values, dtype, bytes);
    writer.append(std::span<const std::byte>(bytes));
  }
  writer.commit();
}

/// PEFT's task type for a transformers class; null: none.
nlohmann::ordered_json task_type(const nlohmann::ordered_json& config) {
  const auto name = config.at("architectures").at(0).get<std::string>();
  if (name.ends_with("ForCausalLM") || name.ends_with("LMHeadModel")) return "CAUSAL_LM";
  if (name.ends_with("ForSequenceClassification")) return "SEQ_CLS";
  return nullptr;
}

nlohmann::ordered_json json_or_null(const auto& value) {
  return value.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(value);
}

nlohmann::ordered_json config_of(const PeftModel& model, const Contents& contents) {
  const double alpha = model.adapters.alpha;
  const bool is_integer = alpha == std::floor(alpha) && alpha < 1e15;
  nlohmann::ordered_json config{{"peft_type", "LORA"},
                                {"task_type", task_type(model.hf.config)},
                                {"base_model_name_or_path", json_or_null(model.base)},
                                {"r", model.adapters.rank},
                                {"lora_alpha", alpha},
                                {"lora_dropout", 0.0},
                                {"target_modules", contents.layers},
                                {"modules_to_save", json_or_null(contents.whole)},
                                {"fan_in_fan_out", contents.transposed},
                                {"bias", "none"},
                                {"use_rslora", model.adapters.rank_stabilized},
                                {"init_lora_weights", true},
                                {"inference_mode", true}};
  if (is_integer) config["lora_alpha"] = static_cast<std::int64_t>(alpha);
  return config;
}

}  // namespace

void write_peft_folder(const SafetensorsReader& tensors, const PeftModel& model, DType dtype,
                       const FolderPlace& place) {
  TRIREME_CHECK(!model.adapters.layers.empty(), "{}: the model has no adapters", tensors.path().string());
  const MergedModel checked(tensors, model.adapters);
  const Contents contents = contents_of(tensors, model, std::string(float_format(dtype).safetensors_name));
  PendingFolder pending(place);
  write_pieces(contents, dtype, pending.path() / kPeftModelFile);
  write_text_file(pending.path() / kPeftConfigFile, config_of(model, contents).dump(2) + "\n");
  pending.commit();
}

}  // namespace trireme
