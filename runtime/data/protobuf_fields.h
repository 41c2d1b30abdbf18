// The fields of a message in protobuf's wire format.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace trireme {

struct ProtobufField {
  std::uint64_t number = 0;
  std::uint64_t integer = 0;  // of a varint; enums, booleans and integers are varints
  std::string_view bytes;     // of a length-delimited field: text, bytes, or a message
};

/// Calls `visit` for each field of `message`, in its order. Numbers of fixed width have neither value. Throws
/// Error(kInvalidInput) if it is not such a message.
void visit_protobuf(std::string_view message, const std::function<void(const ProtobufField&)>& visit);

}  // namespace trireme
