#include "runtime/checkpoint/hf_writer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <system_error>
#include <utility>

#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/base/file_writer.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/float_data.h"
#include "runtime/checkpoint/safetensors_folder.h"
#include "runtime/checkpoint/safetensors_writer.h"
#include "runtime/checkpoint/writer_mark.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// A folder that becomes `place` when it is complete, and is removed otherwise.
class PendingFolder {
 public:
  explicit PendingFolder(fs::path place) : place_(std::move(place)) {
    std::error_code error;
    const bool is_free =
        !fs::exists(place_, error) || (fs::is_directory(place_, error) && fs::is_empty(place_, error));
    TRIREME_CHECK(is_free, "{} is there already: choose another folder, or remove it", place_.string());
    const std::string prefix = fmt::format(".{}.tmp-", place_.filename().string());
    remove_remains(prefix);
    temporary_ = place_.parent_path() / (prefix + writer_mark());
    fs::create_directory(temporary_, error);
    TRIREME_CHECK(!error, "cannot make folder {}: {}", temporary_.string(), error.message());
  }
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;
  ~PendingFolder() { remove(temporary_); }

  const fs::path& temporary() const { return temporary_; }

  void commit() {
    sync_folder(temporary_);
    std::error_code error;
    fs::rename(temporary_, place_, error);
    if (error)
      throw Error(ErrorCode::kRuntime, "cannot rename {} to {}: {}", temporary_.string(), place_.string(),
                  error.message());
    temporary_.clear();
    sync_folder(place_.parent_path());
  }

 private:
  static void remove(const fs::path& folder) noexcept {
    if (folder.empty()) return;
    std::error_code error;
    fs::remove_all(folder, error);
    if (error) log_error(fmt::format("cannot remove {}: {}", folder.string(), error.message()));
  }
  /// Of writers that were killed.
  void remove_remains(const std::string& prefix) const {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(place_.parent_path(), error)) {
      const std::string name = entry.path().filename().string();
      const bool is_dead =
          name.starts_with(prefix) && writer_state(name.substr(prefix.size())) == WriterState::kDead;
      if (is_dead) remove(entry.path());
    }
  }

  fs::path place_, temporary_;
};

/// A part of one of our tensors: [rows, cols] as it is there, from element `first` on.
struct Region {
  const SafetensorsTensor* tensor;
  std::uint64_t first;
  std::uint64_t rows, cols;
};

Region region_of(const SafetensorsTensor& tensor, const HfPart& part, std::uint64_t first) {
  const auto extent = [&](std::size_t dim) { return static_cast<std::uint64_t>(part.shape[dim]); };
  if (part.shape.size() == 1) return {&tensor, first, extent(0), 1};
  return part.transposed ? Region{&tensor, first, extent(1), extent(0)}
                         : Region{&tensor, first, extent(0), extent(1)};
}

/// Appends numbers to the file in its dtype.
class PartWriter {
 public:
  PartWriter(SafetensorsWriter& writer, DType dtype) : writer_(writer), dtype_(dtype) {}

  void write(const Region& region, const HfPart& part) {
    part_ = &part;
    return part.transposed ? write_transposed(region) : write_as_is(region);
  }

 private:
  static constexpr std::uint64_t kBufferElems = 1 << 18;

  void append() {
    if (dtype_ == DType::kFloat16) check_range();
    bytes_.clear();
    append_rounded(values_, dtype_, bytes_);
    writer_.append(std::span<const std::byte>(bytes_));
  }
  void check_range() const {
    constexpr float kFirstInfinite = 65520.0f;  // rounds to 65536
    const auto bad = std::ranges::find_if(values_, [](float v) { return std::abs(v) >= kFirstInfinite; });
    TRIREME_CHECK(bad == values_.end(), "tensor '{}' holds {}, which fp16 cannot: choose bf16 or fp32",
                  part_->name, *bad);
  }
  void write_as_is(const Region& region) {
    const std::uint64_t total = region.rows * region.cols;
    for (std::uint64_t done = 0; done < total; done += values_.size()) {
      values_.resize(std::min(kBufferElems, total - done));
      copy_as_floats(*region.tensor, region.first + done, values_);
      append();
    }
  }
  /// Their rows are our columns: as many of them at a time as the buffer takes.
  void write_transposed(const Region& region) {
    const std::uint64_t strip = std::max<std::uint64_t>(1, kBufferElems / region.rows);
    std::vector<float> row;
    for (std::uint64_t col = 0; col < region.cols; col += strip) {
      const std::uint64_t count = std::min(strip, region.cols - col);
      values_.resize(count * region.rows);
      row.resize(count);
      for (std::uint64_t r = 0; r < region.rows; ++r) {
        copy_as_floats(*region.tensor, region.first + r * region.cols + col, row);
        for (std::uint64_t c = 0; c < count; ++c) values_[c * region.rows + r] = row[c];
      }
      append();
    }
  }

  SafetensorsWriter& writer_;
  DType dtype_;
  const HfPart* part_ = nullptr;
  std::vector<float> values_;
  std::vector<std::byte> bytes_;
};

void write_tensors(const SafetensorsReader& tensors, const HfModel& model, DType dtype,
                   const fs::path& file) {
  std::vector<SafetensorsEntry> entries;
  for (const HfTensor& tensor : model.tensors) {
    for (const HfPart& part : tensor.parts) {
      entries.push_back({part.name, std::string(safetensors_name(dtype)), part.shape});
    }
  }
  SafetensorsWriter writer(file, entries, {{"format", "pt"}});
  PartWriter parts(writer, dtype);
  for (const HfTensor& tensor : model.tensors) {
    const SafetensorsTensor& source = tensors.tensor(tensor.name);
    std::uint64_t elems = 0;
    for (const HfPart& part : tensor.parts) {
      const Region region = region_of(source, part, elems);
      elems += region.rows * region.cols;
      TRIREME_CHECK(source.dtype == "F32" && elems <= source.num_elems,
                    "{}: tensor '{}' is {} [{}], too small for '{}'", tensors.path().string(), tensor.name,
                    source.dtype, fmt::join(source.shape, ", "), part.name);
      parts.write(region, part);
    }
    TRIREME_CHECK(
        elems == source.num_elems, "{}: tensor '{}' of [{}] has {} elements, its config.json makes {}",
        tensors.path().string(), tensor.name, fmt::join(source.shape, ", "), source.num_elems, elems);
  }
  writer.commit();
}

}  // namespace

void write_hf_folder(const SafetensorsReader& tensors, const HfModel& model, DType dtype,
                     const fs::path& folder) {
  // "out/" and "out" are one place; a relative one has a parent.
  const fs::path place = fs::absolute(folder / "").lexically_normal().parent_path();
  PendingFolder pending(place);
  write_tensors(tensors, model, dtype, pending.temporary() / SafetensorsFolder::kFileName);
  nlohmann::ordered_json config = model.config;
  config["torch_dtype"] = dtype == DType::kFloat32   ? "float32"
                          : dtype == DType::kFloat16 ? "float16"
                                                     : "bfloat16";
  write_text_file(pending.temporary() / kHfConfigFile, config.dump(2) + "\n");
  pending.commit();
}

}  // namespace trireme
