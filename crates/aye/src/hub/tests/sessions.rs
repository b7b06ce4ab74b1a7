//! Browsers' sessions, and how each part of them ends with time.

use super::Desk;
use crate::es256::PublicKey;
use crate::home::Home;
use crate::hub::{Credential, SESSION_LASTS, SessionError, SignIn, SignInError};
use crate::store;
use aye_testkit::postgres::Cluster;
use jiff::SignedDuration;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

const ORIGIN: &str = "http://localhost:7177";

fn key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).unwrap()
}

fn bring(code: &str, key: &EcdsaKeyPair) -> SignIn {
    let point = PublicKey::from_point(key.public_key().as_ref().to_vec()).unwrap();
    SignIn { code: code.to_owned(), key: point, origin: ORIGIN.to_owned() }
}

fn sign(key: &EcdsaKeyPair, challenge: &str) -> Vec<u8> {
    let message = format!("aye page token\n{ORIGIN}\n{challenge}");
    key.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref().to_vec()
}

impl Desk {
    pub(super) async fn signed_in(&self) -> (String, EcdsaKeyPair) {
        let (code, key) = (self.hub.sign_in_code().await.unwrap(), key());
        (self.hub.sign_in(bring(&code, &key)).await.unwrap(), key)
    }

    async fn page_token(&self, session: &Credential, key: &EcdsaKeyPair) -> (String, SignedDuration) {
        let challenge = self.hub.session_challenge(session).unwrap();
        self.hub.session_token(session, &challenge, &sign(key, &challenge)).await.unwrap()
    }
}

#[tokio::test]
async fn a_sign_in_code_works_once_and_not_for_long() {
    let desk = Desk::new().await;
    let (code, key) = (desk.hub.sign_in_code().await.unwrap(), key());
    assert!(desk.hub.sign_in(bring(&code, &key)).await.is_ok());
    assert!(matches!(desk.hub.sign_in(bring(&code, &key)).await, Err(SignInError::NotValid)));
    let stale = desk.hub.sign_in_code().await.unwrap();
    desk.advance(SignedDuration::from_mins(15));
    assert!(matches!(desk.hub.sign_in(bring(&stale, &key)).await, Err(SignInError::NotValid)));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn sign_in_codes_of_many_starts_keep_no_hub_from_making_another() {
    let desk = Desk::on(&Cluster::shared().new_database()).await;
    let mut codes = Vec::new();
    for _ in 0..70 {
        codes.push(desk.hub.sign_in_code().await.unwrap());
    }
    let key = key();
    assert!(matches!(desk.hub.sign_in(bring(&codes[0], &key)).await, Err(SignInError::NotValid)));
    desk.hub.sign_in(bring(&codes[69], &key)).await.unwrap();
    desk.hub.close().await;
}

#[tokio::test]
async fn a_page_token_ends_after_ten_minutes_and_a_challenge_after_one() {
    let desk = Desk::new().await;
    let (cookie, key) = desk.signed_in().await;
    let session = desk.hub.credential(&cookie).await.unwrap().unwrap();
    let (token, lasts) = desk.page_token(&session, &key).await;
    assert_eq!(lasts, SignedDuration::from_mins(10));
    let challenge = desk.hub.session_challenge(&session).unwrap();
    desk.advance(SignedDuration::from_mins(1));
    let late = desk.hub.session_token(&session, &challenge, &sign(&key, &challenge)).await;
    assert!(matches!(late, Err(SessionError::Challenge)), "{late:?}");
    desk.advance(SignedDuration::from_millis(9 * 60_000 - 1));
    assert_eq!(desk.hub.page_token_lasts(&session, &token), Some(SignedDuration::from_millis(1)));
    desk.advance(SignedDuration::from_millis(1));
    assert_eq!(desk.hub.page_token_lasts(&session, &token), None);
    let (next, _) = desk.page_token(&session, &key).await;
    assert!(desk.hub.page_token_lasts(&session, &next).is_some());
}

#[tokio::test]
async fn a_session_ends_in_the_store_when_its_cookie_does() {
    let mut desk = Desk::new().await;
    let (cookie, key) = desk.signed_in().await;
    desk.advance(SESSION_LASTS - SignedDuration::from_mins(1));
    desk.crash_and_restart().await;
    let session = desk.hub.credential(&cookie).await.unwrap().unwrap();
    let (_, lasts) = desk.page_token(&session, &key).await;
    assert_eq!(lasts, SignedDuration::from_mins(1), "no token outlives its session");
    let listed =
        || async { desk.hub.tokens().await.unwrap().into_iter().find(|it| it.id == session.id).unwrap() };
    assert!(!listed().await.revoked);
    desk.advance(SignedDuration::from_mins(1));
    assert!(desk.hub.credential(&cookie).await.unwrap().is_none());
    assert!(listed().await.revoked);
    desk.crash_and_restart().await;
    assert!(desk.hub.credential(&cookie).await.unwrap().is_none());
    // The next sign-in forgets it, and nothing else.
    let (fresh, _) = desk.signed_in().await;
    assert!(
        desk.hub.credential(&fresh).await.unwrap().is_some()
            && desk.hub.credential(&cookie).await.unwrap().is_none()
    );
}

#[tokio::test]
async fn a_session_that_has_no_key_ends_with_the_update() {
    let mut desk = Desk::on_sqlite(store::test_databases::BY_HAND).await;
    let (cookie, _) = desk.signed_in().await;
    let id = desk.hub.credential(&cookie).await.unwrap().unwrap().id;
    // As an earlier version left it.
    let db = store::by_hand::open(&Home::at(desk.dir.path()));
    db.execute("UPDATE tokens SET public_key = NULL, origin = NULL, expires_at = NULL", ()).unwrap();
    desk.forget_that_rows_are_marked();
    desk.crash_and_restart().await;
    assert!(desk.hub.credential(&cookie).await.unwrap().is_none());
    assert!(desk.hub.tokens().await.unwrap().iter().any(|token| token.id == id && token.revoked));
    assert_eq!(desk.trail().await.iter().filter(|kind| *kind == "token.revoked").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, which scripts/test installs"]
async fn a_browser_signs_in_at_any_hub_by_the_link_of_another_and_its_page_goes_on_at_a_third() {
    let first = Desk::on(&Cluster::shared().new_database()).await;
    let (second, third) = (first.beside().await, first.beside().await);
    let (code, key) = (first.hub.sign_in_code().await.unwrap(), key());
    let cookie = second.hub.sign_in(bring(&code, &key)).await.unwrap();
    first.hub.sign_in_code_used(&code).await;
    for desk in [&first, &second, &third] {
        assert!(matches!(desk.hub.sign_in(bring(&code, &key)).await, Err(SignInError::NotValid)));
    }
    let session = third.hub.credential(&cookie).await.unwrap().unwrap();
    let challenge = first.hub.session_challenge(&session).unwrap();
    let signature = sign(&key, &challenge);
    let (token, _) = third.hub.session_token(&session, &challenge, &signature).await.unwrap();
    assert!(second.hub.page_token_lasts(&session, &token).is_some());
    let again = second.hub.session_token(&session, &challenge, &signature).await;
    assert!(matches!(again, Err(SessionError::Challenge)), "{again:?}");
    for desk in [first, second, third] {
        desk.hub.close().await;
    }
}
