// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 (FIPS 180-4) of bytes that arrive in pieces, and of files.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace ddpbench::data {

class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  // Returns lower-case hexadecimal. To be called once, after the last update().
  std::string finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// Throws ConfigError when the file cannot be read.
std::string sha256_of_file(const std::string& path);

}  // namespace ddpbench::data
