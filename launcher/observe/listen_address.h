// The address for a server to listen on: log.listen, --listen.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

struct ListenAddress {
  std::string host;  // name or number, without brackets
  std::string port;  // "0": any free port
};

/// Parses "127.0.0.1:9464", "localhost:9464" or "[::1]:9464". Throws Error(kInvalidInput). Its message begins
/// with `setting`, the user's text, such as `--listen 127.0.0.1:8080`.
ListenAddress parse_listen_address(std::string_view text, std::string_view setting);

}  // namespace trireme
