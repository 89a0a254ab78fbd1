//! Look-up in a table.

use super::index_from_cell;

/// A row of a table for each token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Embedding {
    /// Rows of the table.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
}

/// A token that is no row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("token {position} is {token}, but the table has {rows} rows")]
#[allow(missing_docs, reason = "the messages name the fields")]
pub struct TokenError {
    pub position: usize,
    pub token: u32,
    pub rows: usize,
}

impl Embedding {
    /// The rows of the tokens, which are stored as by
    /// [`cell_from_index`](super::cell_from_index).
    pub fn forward(&self, tokens: &[f32], table: &[f32], y: &mut [f32]) -> Result<(), TokenError> {
        for (position, y) in y.chunks_exact_mut(self.width).enumerate() {
            y.copy_from_slice(&table[self.place(tokens, position)?..][..self.width]);
        }
        Ok(())
    }

    /// The gradient of the table: zero where no token was looked up.
    pub fn backward(
        &self,
        tokens: &[f32],
        dy: &[f32],
        dtable: &mut [f32],
    ) -> Result<(), TokenError> {
        dtable.fill(0.0);
        for (position, dy) in dy.chunks_exact(self.width).enumerate() {
            super::add_assign(&mut dtable[self.place(tokens, position)?..][..self.width], dy);
        }
        Ok(())
    }

    /// Where a token's row begins.
    fn place(&self, tokens: &[f32], position: usize) -> Result<usize, TokenError> {
        let token = index_from_cell(tokens[position]);
        if token as usize >= self.rows {
            return Err(TokenError { position, token, rows: self.rows });
        }
        Ok(token as usize * self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cell_from_index;
    use super::super::gradient_check::{check_gradient, inner, made, random};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gradients_are_the_derivatives(
            tokens in proptest::collection::vec(0u32..4, 1..8), width in 1usize..5, seed: u64,
        ) {
            let embedding = Embedding { rows: 4, width };
            let table = random(seed, 4 * width);
            let dy = random(seed ^ 1, tokens.len() * width);
            let tokens: Vec<f32> = tokens.into_iter().map(cell_from_index).collect();
            let mut dtable = vec![f32::NAN; table.len()];
            embedding.backward(&tokens, &dy, &mut dtable).unwrap();
            check_gradient(&table, &dtable, 0.5, |table| {
                let y = made(dy.len(), |y| embedding.forward(&tokens, table, y).unwrap());
                inner(&y, &dy)
            })?;
        }
    }

    #[test]
    fn a_token_that_is_no_row_is_refused() {
        let embedding = Embedding { rows: 2, width: 1 };
        let tokens = [cell_from_index(1), cell_from_index(2)];
        let refused = Err(TokenError { position: 1, token: 2, rows: 2 });
        assert_eq!(embedding.forward(&tokens, &[0.0; 2], &mut [0.0; 2]), refused);
        assert_eq!(embedding.backward(&tokens, &[0.0; 2], &mut [0.0; 2]), refused);
    }
}
