//! A code with one planted bug, so that the contract suite shows that it can fail.

use holdfast_parity::{Code, Geometry, Misuse, ReedSolomon, Role, Shard, Unverified};

/// What the code does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    /// Encodes with one wrong weight.
    WrongWeight,
    /// Takes parity shards 0 and 1 for each other, in every call: a good code of another format.
    OtherMatrix,
    /// Encodes on top of what was in the buffer.
    EncodeAccumulates,
    /// Leaves the last byte of odd lengths as it was.
    EncodeForgetsTail,
    /// Goes wrong where a strip ends.
    EncodeForgetsStrip,
    /// Updates all parity shards but the last.
    UpdateSkipsParity,
    /// Replaces parity by the difference of data shard 0, as `encode_single_sep` does.
    UpdateAssigns,
    /// Updates parity shards in the order of the stripe, whatever their names.
    UpdateIgnoresNames,
    /// Reconstructs the first shard wanted only.
    ReconstructsOne,
    /// Takes present shards in the order of the stripe, whatever their names.
    ReconstructIgnoresNames,
    /// Does not know a parity shard that is present from one that is lost.
    ReconstructsDataOnly,
    /// Verifies nothing.
    VerifiesAnything,
    /// Verifies the first 4096 bytes.
    VerifiesStart,
    /// Says that a stripe without a surplus shard is verified.
    VerifiesTooFew,
    /// Takes buffers of different lengths as long as the shortest.
    CutsToShortest,
    /// Refuses after it has begun to write.
    WritesBeforeChecks,
}

/// All of them, each with the check that has to notice it.
pub(crate) const BUGS: [(Bug, &str); 16] = [
    (Bug::WrongWeight, "parity is that of the format"),
    (Bug::OtherMatrix, "parity is that of the format"),
    (Bug::EncodeAccumulates, "parity is that of the format"),
    (Bug::EncodeForgetsTail, "parity is that of the format"),
    (Bug::EncodeForgetsStrip, "long shards at any address"),
    (Bug::UpdateSkipsParity, "updates are as encoding anew"),
    (Bug::UpdateAssigns, "updates are as encoding anew"),
    (Bug::UpdateIgnoresNames, "updates are as encoding anew"),
    (Bug::ReconstructsOne, "every loss in a small stripe"),
    (Bug::ReconstructIgnoresNames, "any loss in any stripe"),
    (Bug::ReconstructsDataOnly, "every loss in a small stripe"),
    (Bug::VerifiesAnything, "verify finds a changed byte"),
    (Bug::VerifiesStart, "verify finds a changed byte"),
    (Bug::VerifiesTooFew, "misuse changes nothing"),
    (Bug::CutsToShortest, "misuse changes nothing"),
    (Bug::WritesBeforeChecks, "misuse changes nothing"),
];

pub(crate) struct Deviant {
    pub(crate) inner: ReedSolomon,
    pub(crate) bug: Bug,
}

impl Deviant {
    /// The shard that this code means when it says `shard`.
    fn named(&self, shard: Shard) -> Shard {
        let geometry = self.inner.geometry();
        if self.bug != Bug::OtherMatrix || geometry.parity() < 2 {
            return shard;
        }
        match geometry.role(shard) {
            Ok(Role::Parity(0)) => Shard(shard.0 + 1),
            Ok(Role::Parity(1)) => Shard(shard.0 - 1),
            _ => shard,
        }
    }

    fn read<'a>(&self, parts: &[(Shard, &'a [u8])]) -> Vec<(Shard, &'a [u8])> {
        let mut parts: Vec<_> = parts.iter().map(|(s, b)| (self.named(*s), *b)).collect();
        if self.bug == Bug::ReconstructIgnoresNames {
            let mut names: Vec<Shard> = parts.iter().map(|(shard, _)| *shard).collect();
            names.sort();
            parts
                .iter_mut()
                .zip(names)
                .for_each(|(part, name)| part.0 = name);
        }
        parts
    }

    fn write<'a>(&self, parts: &'a mut [(Shard, &mut [u8])]) -> Vec<(Shard, &'a mut [u8])> {
        let parts = parts.iter_mut();
        parts.map(|(s, b)| (self.named(*s), &mut **b)).collect()
    }
}

/// Cuts all to the length of the shortest.
fn cut(buffers: Vec<&mut [u8]>, bytes: usize) -> Vec<&mut [u8]> {
    let bytes = buffers
        .iter()
        .map(|buffer| buffer.len())
        .fold(bytes, usize::min);
    buffers
        .into_iter()
        .map(|buffer| &mut buffer[..bytes])
        .collect()
}

impl Code for Deviant {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), Misuse> {
        let before: Vec<Vec<u8>> = parity.iter().map(|buffer| buffer.to_vec()).collect();
        let mut data = data.to_vec();
        let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(|buffer| &mut **buffer).collect();
        match self.bug {
            Bug::OtherMatrix if outputs.len() >= 2 => outputs.swap(0, 1),
            Bug::CutsToShortest => {
                let shortest = data.iter().map(|data| data.len()).min().unwrap_or(0);
                outputs = cut(outputs, shortest);
                let shortest = outputs.first().map_or(shortest, |output| output.len());
                data.iter_mut().for_each(|data| *data = &data[..shortest]);
            }
            Bug::WritesBeforeChecks => outputs.iter_mut().for_each(|output| output.fill(0)),
            _ => {}
        }
        self.inner.encode(&data, &mut outputs)?;
        for (output, before) in parity.iter_mut().zip(before) {
            let bytes = output.len();
            match self.bug {
                Bug::WrongWeight => {
                    let pairs = output.iter_mut().zip(data[0]);
                    pairs.for_each(|(output, data)| *output ^= data);
                }
                Bug::EncodeAccumulates => {
                    let pairs = output.iter_mut().zip(before);
                    pairs.for_each(|(output, before)| *output ^= before);
                }
                Bug::EncodeForgetsTail if bytes % 2 == 1 => output[bytes - 1] = before[bytes - 1],
                Bug::EncodeForgetsStrip if bytes > 8192 => output[8192] ^= 1,
                _ => {}
            }
        }
        Ok(())
    }

    fn update(
        &self,
        data: Shard,
        difference: &[u8],
        parity: &mut [(Shard, &mut [u8])],
    ) -> Result<(), Misuse> {
        let mut outputs = self.write(parity);
        match self.bug {
            Bug::UpdateSkipsParity if outputs.len() > 1 => {
                outputs.pop();
            }
            Bug::UpdateIgnoresNames => {
                let mut names: Vec<Shard> = outputs.iter().map(|(shard, _)| *shard).collect();
                names.sort();
                outputs
                    .iter_mut()
                    .zip(names)
                    .for_each(|(output, name)| output.0 = name);
            }
            Bug::UpdateAssigns if data == Shard(0) => {
                // A refused call stays one without effect.
                let lengths = outputs.iter().all(|(_, b)| b.len() == difference.len());
                if lengths {
                    outputs.iter_mut().for_each(|(_, buffer)| buffer.fill(0));
                }
            }
            _ => {}
        }
        self.inner.update(data, difference, &mut outputs)
    }

    fn reconstruct(
        &self,
        present: &[(Shard, &[u8])],
        wanted: &mut [(Shard, &mut [u8])],
    ) -> Result<(), Misuse> {
        let data = self.geometry().data();
        let mut outputs = self.write(wanted);
        match self.bug {
            Bug::ReconstructsOne => outputs.truncate(1),
            Bug::ReconstructsDataOnly => outputs.retain(|(shard, _)| shard.0 < data),
            _ => {}
        }
        self.inner.reconstruct(&self.read(present), &mut outputs)
    }

    fn verify(&self, present: &[(Shard, &[u8])]) -> Result<(), Unverified> {
        let mut present = self.read(present);
        match self.bug {
            Bug::VerifiesStart => {
                for (_, bytes) in &mut present {
                    *bytes = &bytes[..bytes.len().min(4096)];
                }
            }
            Bug::VerifiesTooFew if present.len() == usize::from(self.geometry().data()) => {
                return Ok(());
            }
            _ => {}
        }
        match self.inner.verify(&present) {
            Err(Unverified::Mismatch(_)) if self.bug == Bug::VerifiesAnything => Ok(()),
            Err(Unverified::Mismatch(mut mismatch)) => {
                mismatch.shard = self.named(mismatch.shard);
                Err(mismatch.into())
            }
            verified => verified,
        }
    }
}
