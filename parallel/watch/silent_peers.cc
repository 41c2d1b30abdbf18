#include "parallel/watch/silent_peers.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr double kSilentS = 0.5;
constexpr int kTimesResent = 2;

std::string address_of_peer(int socket) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  char text[INET6_ADDRSTRLEN] = {};
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return "";
  const void* address = peer.ss_family == AF_INET
                            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(peer).sin_addr)
                        : peer.ss_family == AF_INET6 ? &reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr
                                                     : nullptr;
  if (address == nullptr || inet_ntop(peer.ss_family, address, text, sizeof(text)) == nullptr) return "";
  return text;
}

std::optional<SilentPeer> silent_peer(int socket) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return std::nullopt;
  const double silent_s = info.tcpi_last_ack_recv / 1e3;
  if (info.tcpi_unacked == 0 || info.tcpi_retransmits < kTimesResent || silent_s < kSilentS)
    return std::nullopt;
  SilentPeer peer{
      .address = address_of_peer(socket), .silent_s = silent_s, .num_resent = info.tcpi_retransmits};
  if (peer.address.empty()) return std::nullopt;
  return peer;
}

}  // namespace

std::vector<SilentPeer> find_silent_peers() {
  std::vector<SilentPeer> found;
  std::error_code error;
  for (fs::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    int socket = -1;
    if (std::from_chars(name.data(), name.data() + name.size(), socket).ec != std::errc{}) continue;
    const auto peer = silent_peer(socket);
    const auto is_same = [&](const SilentPeer& other) { return other.address == peer->address; };
    if (peer && std::ranges::none_of(found, is_same)) found.push_back(*peer);
  }
  std::ranges::sort(found, {}, &SilentPeer::address);
  return found;
}

std::string describe_silent_peers(const std::vector<SilentPeer>& peers) {
  std::string text;
  for (const SilentPeer& peer : peers) {
    text += fmt::format("{}{} has acknowledged nothing for {:.1f} s, after {} retransmissions",
                        text.empty() ? "" : "; ", peer.address, peer.silent_s, peer.num_resent);
  }
  return text.empty() ? "" : text + ": the host or the link to it may be down";
}

}  // namespace trireme
