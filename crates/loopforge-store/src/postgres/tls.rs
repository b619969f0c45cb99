//! Connections that nobody listens to.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::Tls;
use crate::StoreError;

/// What connections are protected with.
pub(crate) fn connector(tls: &Tls) -> Result<MakeRustlsConnect, StoreError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Unavailable(format!("TLS can't be set up: {error}")))?;
    let config = match tls {
        Tls::Verified { roots } => builder.with_root_certificates(trusted(roots.as_deref())?).with_no_client_auth(),
        Tls::Off | Tls::Opportunistic => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider))).with_no_client_auth()
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn trusted(file: Option<&std::path::Path>) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let unusable =
        |error: String| StoreError::Unavailable(format!("`sslrootcert` {} can't be used: {error}", file.display()));
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unusable(error.to_string()))? {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    Ok(roots)
}

/// Takes any certificate, as libpq does for `sslmode=prefer`: there the connection could as well have no TLS.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
