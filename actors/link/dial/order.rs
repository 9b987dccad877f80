//! In which order the controllers of a cluster are tried.

use std::net::SocketAddr;

/// Addresses of controllers, the one that is tried first in front.
///
/// Whoever was reached goes to the end, and where a standby says that the primary is comes to the
/// front: so nobody is asked for ever who does not know that it no longer leads, or who names one
/// that does not know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    addresses: Vec<SocketAddr>,
    /// How many were given at the start; what was only named is kept beside them, one at a time.
    given: Vec<SocketAddr>,
}

impl Order {
    /// The order in which they are given.
    pub fn new(addresses: &[SocketAddr]) -> Self {
        Self {
            addresses: addresses.to_vec(),
            given: addresses.to_vec(),
        }
    }

    /// All of them, in order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// One was reached: it is the last to be tried next time.
    pub fn reached(&mut self, address: SocketAddr) {
        if self.addresses.contains(&address) {
            self.addresses.retain(|known| *known != address);
            self.addresses.push(address);
        }
    }

    /// The primary is said to be there: it is the first to be tried.
    pub fn named(&mut self, address: SocketAddr) {
        let given = &self.given;
        self.addresses
            .retain(|known| *known != address && given.contains(known));
        self.addresses.insert(0, address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 7_000))
    }

    #[test]
    fn the_primary_is_found_although_others_are_wrong_about_it() {
        // 1 no longer leads and knows of nobody, 3 believes that 1 leads; 2 does.
        let mut order = Order::new(&[address(3), address(1), address(2)]);
        let mut tried = Vec::new();
        loop {
            let next = order.addresses()[0];
            tried.push(next);
            order.reached(next);
            if next == address(2) {
                break;
            }
            if next == address(3) {
                order.named(address(1));
            }
            assert!(tried.len() < 5, "{tried:?}");
        }
        assert_eq!(tried, [address(3), address(1), address(2)]);
    }

    #[test]
    fn an_address_that_was_only_named_does_not_stay() {
        let mut order = Order::new(&[address(1), address(2)]);
        order.named(address(8));
        order.named(address(9));
        assert_eq!(order.addresses(), [address(9), address(1), address(2)]);
        order.reached(address(7));
        assert_eq!(order.addresses().len(), 3);
    }
}
