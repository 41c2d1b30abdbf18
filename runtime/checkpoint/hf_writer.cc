#include "runtime/checkpoint/hf_writer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/float_data.h"
#include "runtime/checkpoint/pending_folder.h"
#include "runtime/checkpoint/safetensors_folder.h"
#include "runtime/checkpoint/safetensors_writer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// A part of one of our tensors, from element `first`: [rows, cols] as stored, with all dims but the first as
/// columns.
struct Region {
  const SafetensorsTensor* tensor;
  std::uint64_t first;
  std::uint64_t rows, cols;
};

Region region_of(const SafetensorsTensor& tensor, const HfPart& part, std::uint64_t first) {
  const auto rows = static_cast<std::uint64_t>(part.shape[0]);
  std::uint64_t cols = 1;
  for (std::size_t dim = 1; dim < part.shape.size(); ++dim)
    cols *= static_cast<std::uint64_t>(part.shape[dim]);
  return part.transposed ? Region{&tensor, first, cols, rows} : Region{&tensor, first, rows, cols};
}

/// Appends numbers to the file in its dtype.
class PartWriter {
 public:
  PartWriter(const MergedModel& tensors, SafetensorsWriter& writer, DType dtype)
      : tensors_(tensors), writer_(writer), dtype_(dtype) {}

  void write(const Region& region, const HfPart& part) {
    part_ = &part;
    return part.transposed ? write_transposed(region) : write_as_is(region);
  }

 private:
  static constexpr std::uint64_t kBufferElems = 1 << 18;

  void append() {
    check_range();
    bytes_.clear();
    append_rounded(values_, dtype_, bytes_);
    writer_.append(std::span<const std::byte>(bytes_));
  }
  void check_range() const {
    const float first_infinite = float_format(dtype_).first_infinite;
    const auto bad = std::ranges::find_if(
        values_, [&](float v) { return std::isfinite(v) && std::abs(v) >= first_infinite; });
    TRIREME_CHECK(bad == values_.end(), "tensor '{}' holds {}, which {} cannot: choose a wider one",
                  part_->name, *bad, name(dtype_));
  }
  void write_as_is(const Region& region) {
    const std::uint64_t total = region.rows * region.cols;
    for (std::uint64_t done = 0; done < total; done += values_.size()) {
      values_.resize(std::min(kBufferElems, total - done));
      tensors_.copy_floats(*region.tensor, region.first + done, values_);
      append();
    }
  }
  /// Rows in the file are our columns. Writes as many at a time as fit in the buffer.
  void write_transposed(const Region& region) {
    const std::uint64_t strip = std::max<std::uint64_t>(1, kBufferElems / region.rows);
    std::vector<float> row;
    for (std::uint64_t col = 0; col < region.cols; col += strip) {
      const std::uint64_t count = std::min(strip, region.cols - col);
      values_.resize(count * region.rows);
      row.resize(count);
      for (std::uint64_t r = 0; r < region.rows; ++r) {
        tensors_.copy_floats(*region.tensor, region.first + r * region.cols + col, row);
        for (std::uint64_t c = 0; c < count; ++c) values_[c * region.rows + r] = row[c];
      }
      append();
    }
  }

  const MergedModel& tensors_;
  SafetensorsWriter& writer_;
  DType dtype_;
  const HfPart* part_ = nullptr;
  std::vector<float> values_;
  std::vector<std::byte> bytes_;
};

void write_tensors(const MergedModel& tensors, const HfModel& model, DType dtype, const fs::path& file) {
  std::vector<SafetensorsEntry> entries;
  for (const HfTensor& tensor : model.tensors) {
    for (const HfPart& part : tensor.parts) {
      entries.push_back({part.name, std::string(float_format(dtype).safetensors_name), part.shape});
    }
  }
  SafetensorsWriter writer(file, entries, {{"format", "pt"}});
  PartWriter parts(tensors, writer, dtype);
  for (const HfTensor& tensor : model.tensors) {
    const SafetensorsTensor& source = tensors.file().tensor(tensor.name);
    std::uint64_t elems = 0;
    for (const HfPart& part : tensor.parts) {
      const Region region = region_of(source, part, elems);
      elems += region.rows * region.cols;
      TRIREME_CHECK(source.dtype == "F32" && elems <= source.num_elems,
                    "{}: tensor '{}' is {} [{}], too small for '{}'", tensors.file().path().string(),
                    tensor.name, source.dtype, fmt::join(source.shape, ", "), part.name);
      parts.write(region, part);
    }
    TRIREME_CHECK(
        elems == source.num_elems, "{}: tensor '{}' of [{}] has {} elements, its config.json makes {}",
        tensors.file().path().string(), tensor.name, fmt::join(source.shape, ", "), source.num_elems, elems);
  }
  writer.commit();
}

}  // namespace

void write_hf_folder(const MergedModel& tensors, const HfModel& model, DType dtype,
                     const FolderPlace& place) {
  PendingFolder pending(place);
  write_tensors(tensors, model, dtype,
                pending.path() / (std::string(weights_stem(model.library)) + ".safetensors"));
  nlohmann::ordered_json config = model.config;
  if (model.library == HfLibrary::kTransformers) config["torch_dtype"] = float_format(dtype).torch_name;
  write_text_file(pending.path() / kHfConfigFile, config.dump(2) + "\n");
  pending.commit();
}

}  // namespace trireme
