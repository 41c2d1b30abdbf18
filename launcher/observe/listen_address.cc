#include "launcher/observe/listen_address.h"

#include <charconv>

#include "runtime/base/error.h"

namespace trireme {

ListenAddress parse_listen_address(std::string_view text, std::string_view setting) {
  constexpr int kLargestPort = 65535;
  const std::size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon);
  const std::string_view port = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  int number = -1;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool is_port =
      error == std::errc() && end == port.data() + port.size() && number >= 0 && number <= kLargestPort;
  TRIREME_CHECK(
      is_port && !host.empty() && (bracketed || host.find_first_of("[]:") == std::string_view::npos),
      "{}: this is no address with a port from 0 to {}; write it as 127.0.0.1:9464, or [::1]:9464", setting,
      kLargestPort);
  return {.host = std::string(host), .port = std::string(port)};
}

}  // namespace trireme
