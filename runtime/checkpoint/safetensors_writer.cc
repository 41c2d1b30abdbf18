#include "runtime/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/checkpoint/safetensors_layout.h"

namespace trireme {
SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::vector<SafetensorsEntry>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
  for (const SafetensorsEntry& tensor : tensors)
    declared_.push_back({tensor.name, safetensors_data_bytes(tensor).value_or(0)});
  const SafetensorsLayout layout(path, tensors, metadata);
  declared_bytes_ = layout.size_bytes() - layout.head().size();
  write(std::as_bytes(std::span(layout.head())));
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  hash_.update(bytes);
  file_.writer().append(bytes);
}

// A tensor without elements is complete as soon as it is the next one.
void SafetensorsWriter::note_tensors(std::span<const std::byte> bytes) {
  while (next_ < declared_.size()) {
    const Declared& tensor = declared_[next_];
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(tensor.bytes - next_bytes_, bytes.size()));
    next_hash_.update(bytes.first(count));
    next_bytes_ += count;
    bytes = bytes.subspan(count);
    if (next_bytes_ < tensor.bytes) return;
    tensors_[tensor.name] = std::exchange(next_hash_, {}).value();
    next_bytes_ = 0;
    ++next_;
  }
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  TRIREME_CHECK(bytes.size() <= declared_bytes_ - appended_bytes_,
                "{}: {} bytes of data were declared, {} are written and {} more come", file_.path().string(),
                declared_bytes_, appended_bytes_, bytes.size());
  write(bytes);
  note_tensors(bytes);
  appended_bytes_ += bytes.size();
}

CheckpointFile SafetensorsWriter::commit() {
  TRIREME_CHECK(appended_bytes_ == declared_bytes_, "{}: {} bytes of data were declared, {} are written",
                file_.path().string(), declared_bytes_, appended_bytes_);
  note_tensors({});
  const CheckpointFile written{.name = file_.path().filename().string(),
                               .bytes = file_.writer().size_bytes(),
                               .checksum = hash_.value(),
                               .tensors = tensors_};
  file_.commit();
  return written;
}

}  // namespace trireme
