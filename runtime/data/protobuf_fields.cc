#include "runtime/data/protobuf_fields.h"

#include "runtime/base/error.h"

namespace trireme {
namespace {

std::string_view take_bytes(std::string_view& rest, std::uint64_t count) {
  TRIREME_CHECK(count <= rest.size(), "a field of it has {} bytes, and {} are left", count, rest.size());
  const std::string_view taken = rest.substr(0, count);
  rest.remove_prefix(count);
  return taken;
}

std::uint64_t take_varint(std::string_view& rest) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take_bytes(rest, 1)[0]);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  throw Error(ErrorCode::kInvalidInput, "a number of it has more than 64 bits");
}

}  // namespace

void visit_protobuf(std::string_view message, const std::function<void(const ProtobufField&)>& visit) {
  while (!message.empty()) {
    const std::uint64_t tag = take_varint(message);
    TRIREME_CHECK(tag >> 32 == 0, "a field of it has the tag {}", tag);
    ProtobufField field{.number = tag >> 3, .integer = 0, .bytes = {}};
    switch (tag & 7) {
      case 0:
        field.integer = take_varint(message);
        break;
      case 1:
        take_bytes(message, 8);
        break;
      case 2:
        field.bytes = take_bytes(message, take_varint(message));
        break;
      case 5:
        take_bytes(message, 4);
        break;
      default:  // groups, which no model uses
        throw Error(ErrorCode::kInvalidInput, "a field of it has the wire type {}", tag & 7);
    }
    visit(field);
  }
}

}  // namespace trireme
