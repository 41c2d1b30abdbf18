#include "launcher/observe/request_origin.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>

namespace trireme {
namespace {

constexpr unsigned kBadRequest = 400, kForbidden = 403, kMisdirected = 421;

bool is_digits(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool equal_names(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

/// The host part of "name", "name:80", "127.0.0.1:80" or "[::1]:80", without brackets.
std::optional<std::string> host_of(std::string_view value) {
  std::string_view host = value, port;
  if (value.starts_with('[')) {
    const std::size_t end = value.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    host = value.substr(1, end - 1);
    port = value.substr(end + 1);
  } else if (const std::size_t colon = value.find(':'); colon != std::string_view::npos) {
    host = value.substr(0, colon);
    port = value.substr(colon);
  }
  const bool has_port = !port.empty();
  if (host.empty() || (has_port && (!port.starts_with(':') || !is_digits(port.substr(1)))))
    return std::nullopt;
  return std::string(host);
}

bool is_loopback_host(const std::string& host) {
  constexpr std::uint32_t kLoopbackNet = 127;
  if (equal_names(host, "localhost")) return true;
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == kLoopbackNet;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace

std::optional<RequestTarget> parse_target(std::string_view target) {
  constexpr std::string_view kScheme = "http://";
  if (target.starts_with('/')) return RequestTarget{.authority = {}, .path = std::string(target)};
  if (!equal_names(target.substr(0, kScheme.size()), kScheme)) return std::nullopt;
  target.remove_prefix(kScheme.size());
  const std::size_t slash = std::min(target.find('/'), target.size());
  if (slash == 0) return std::nullopt;
  const std::string_view path = target.substr(slash);
  return RequestTarget{.authority = std::string(target.substr(0, slash)),
                       .path = path.empty() ? "/" : std::string(path)};
}

unsigned refusal_of(const RequestOrigin& request, std::string_view listened, bool loopback) {
  if (request.hosts.size() != 1) return kBadRequest;
  const std::string& named = request.authority.empty() ? request.hosts.front() : request.authority;
  const auto host = host_of(named);
  if (!host) return kBadRequest;
  if (loopback && !is_loopback_host(*host) && !equal_names(*host, listened)) return kMisdirected;
  const bool own_pages = std::ranges::all_of(request.origins, [&](std::string_view origin) {
    const std::size_t scheme = origin.find("://");
    return scheme != std::string_view::npos && equal_names(origin.substr(scheme + 3), named);
  });
  return own_pages ? 0 : kForbidden;
}

}  // namespace trireme
