#include "runtime/checkpoint/shard_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/checkpoint/hash.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

constexpr std::array<char, 8> kMagic = {'T', 'R', 'S', 'H', 'A', 'R', 'D', '1'};

// The first bytes of the file; see [Note: shard files].
struct Prelude {
  std::array<char, 8> magic{};
  std::uint64_t header_bytes = 0, header_hash = 0, num_pieces = 0, body_hash = 0;
};
static_assert(sizeof(Prelude) == 40 && sizeof(ShardPlace) == 24);

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  ByteHash hash;
  hash.update(bytes);
  return hash.value();
}

// Padded with spaces, so that the table is aligned.
std::string to_text(const ShardHeader& header) {
  Json files = Json::array();
  for (const ShardHeader::File& file : header.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}});
  std::string text = Json{{"run", header.run},        {"save", header.save},       {"step", header.step},
                          {"rank", header.rank},      {"ranks", header.num_ranks}, {"files", files},
                          {"content", header.content}}
                         .dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

ShardHeader to_header(const std::string& text) {
  const Json json = Json::parse(text);
  ShardHeader header{.run = json.at("run").get<std::string>(),
                     .save = json.at("save").get<std::string>(),
                     .step = read_integer<std::int64_t>(json, "step"),
                     .rank = read_integer<std::int32_t>(json, "rank"),
                     .num_ranks = read_integer<std::int32_t>(json, "ranks"),
                     .content = json.at("content")};
  for (const Json& file : json.at("files")) {
    header.files.push_back(
        {.name = file.at("name").get<std::string>(), .bytes = read_integer<std::uint64_t>(file, "bytes")});
    const std::filesystem::path name = header.files.back().name;
    TRIREME_CHECK(name.has_filename() && name == name.filename() && name != ".." && name != ".",
                  "\"{}\" is no name of a file", name.string());
  }
  TRIREME_CHECK(header.step >= 0 && header.rank >= 0 && header.rank < header.num_ranks,
                "rank {} of {} at step {}", header.rank, header.num_ranks, header.step);
  return header;
}

}  // namespace

ShardWriter::ShardWriter(const ShardHeader& header, std::vector<ShardPiece> pieces)
    : header_(to_text(header)), pieces_(std::move(pieces)) {
  size_bytes_ = sizeof(Prelude) + header_.size() + pieces_.size() * sizeof(ShardPlace);
  for (const ShardPiece& piece : pieces_) size_bytes_ += piece.place.bytes;
}

void ShardWriter::write(const ReservedFile& file) const {
  TRIREME_CHECK(file.bytes().size() == size_bytes_, "{} has {} bytes, and a shard {}", file.path().string(),
                file.bytes().size(), size_bytes_);
  std::byte* at = file.bytes().data() + sizeof(Prelude);
  std::memcpy(at, header_.data(), header_.size());
  at += header_.size();
  ByteHash hash;
  const auto append = [&](const void* from, std::uint64_t bytes) {
    constexpr std::uint64_t kRun = std::uint64_t{1} << 18;  // stays in cache for the hash
    for (std::uint64_t done = 0; done < bytes; done += kRun) {
      const auto count = static_cast<std::size_t>(std::min(kRun, bytes - done));
      std::memcpy(at, static_cast<const std::byte*>(from) + done, count);
      hash.update({at, count});
      at += count;
    }
  };
  for (const ShardPiece& piece : pieces_) append(&piece.place, sizeof(ShardPlace));
  for (const ShardPiece& piece : pieces_) append(piece.data, piece.place.bytes);
  const Prelude prelude{.magic = kMagic,
                        .header_bytes = header_.size(),
                        .header_hash = hash_of(std::as_bytes(std::span(header_))),
                        .num_pieces = pieces_.size(),
                        .body_hash = hash.value()};
  std::memcpy(file.bytes().data(), &prelude, sizeof(prelude));
}

ShardReader::ShardReader(const std::filesystem::path& path, std::optional<std::uint64_t> size_bytes)
    : file_(path, "shard of a checkpoint"), size_bytes_(size_bytes.value_or(file_.bytes().size())) {
  try {
    Prelude prelude;
    TRIREME_CHECK(size_bytes_ <= file_.bytes().size(), "it has {} bytes, not {}", file_.bytes().size(),
                  size_bytes_);
    std::span<const std::byte> bytes = file_.bytes().first(static_cast<std::size_t>(size_bytes_));
    TRIREME_CHECK(bytes.size() >= sizeof(prelude), "it has {} bytes", bytes.size());
    std::memcpy(&prelude, bytes.data(), sizeof(prelude));
    bytes = bytes.subspan(sizeof(prelude));
    TRIREME_CHECK(prelude.magic == kMagic, "its writer did not finish it, or it is something else");
    TRIREME_CHECK(prelude.header_bytes <= bytes.size(), "a header of {} bytes does not fit into it",
                  prelude.header_bytes);
    const auto header = bytes.first(static_cast<std::size_t>(prelude.header_bytes));
    TRIREME_CHECK(hash_of(header) == prelude.header_hash, "its header was changed after it was written");
    header_ = to_header(std::string(reinterpret_cast<const char*>(header.data()), header.size()));
    body_ = bytes.subspan(header.size());
    num_pieces_ = prelude.num_pieces;
    hash_ = prelude.body_hash;
    TRIREME_CHECK(num_pieces_ <= body_.size() / sizeof(ShardPlace),
                  "a table of {} pieces does not fit into it", num_pieces_);
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kInvalidInput, "shard {} of a checkpoint is damaged: {:.300}", path.string(),
                error.what());
  }
}

void ShardReader::verify() const {
  const std::uint64_t hash = hash_of(body_);
  TRIREME_CHECK(hash == hash_,
                "shard {} of a checkpoint was changed after it was written: its checksum is {:016x}, and was "
                "{:016x}",
                file_.path().string(), hash, hash_);
  std::uint64_t left = body_.size() - num_pieces_ * sizeof(ShardPlace);
  for (std::uint64_t i = 0; i < num_pieces_; ++i) {
    ShardPlace place;
    std::memcpy(&place, body_.data() + i * sizeof(place), sizeof(place));
    const bool fits = place.file < header_.files.size() && place.bytes <= left &&
                      place.offset <= header_.files[place.file].bytes &&
                      place.bytes <= header_.files[place.file].bytes - place.offset;
    TRIREME_CHECK(fits, "shard {} of a checkpoint is damaged: piece {} belongs to no place",
                  file_.path().string(), i);
    left -= place.bytes;
  }
  TRIREME_CHECK(left == 0, "shard {} of a checkpoint is damaged: {} bytes belong to no piece",
                file_.path().string(), left);
}

std::vector<ShardPiece> ShardReader::pieces() const {
  std::vector<ShardPiece> pieces(num_pieces_);
  const std::byte* data = body_.data() + num_pieces_ * sizeof(ShardPlace);
  for (std::uint64_t i = 0; i < num_pieces_; ++i) {
    std::memcpy(&pieces[i].place, body_.data() + i * sizeof(ShardPlace), sizeof(ShardPlace));
    pieces[i].data = data;
    data += pieces[i].place.bytes;
  }
  return pieces;
}

}  // namespace trireme
