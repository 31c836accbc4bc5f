// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CIFAR-10's binary files (https://www.cs.toronto.edu/~kriz/cifar.html, "binary version"). A file
// is a sequence of records, each a byte with the label and then the image's bytes: all of red, of
// green, of blue, row by row.
#pragma once

#include <memory>
#include <string>

#include "datasets/catalog_entry.h"

namespace ddpbench::data {

// CatalogEntry::open for CIFAR-10. The training samples are those of data_batch_1.bin to
// data_batch_5.bin, in this order, the test samples those of test_batch.bin. Looks for them in
// <directory>/<name>/ and in the archive's own folder (<directory>/cifar-10-batches-bin/, or in
// <name>/), then for the archive itself, the entry's only file, in <directory>/<name>/, which is
// read as it is. Fewer training files and fewer records than were published are fine (a subset); an
// archive must be whole.
std::unique_ptr<DatasetSource> open_cifar_dataset(const CatalogEntry& entry,
                                                  const std::string& directory);

}  // namespace ddpbench::data
